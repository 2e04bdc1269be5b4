"""New statistics after a deletion (definition 10): what the deleted records added is taken away.

The statistics of the client that a request hits stop counting with the ledger's entry, and their files are
destroyed with everything else. Before that they are read into memory, where the deleted records are then
subtracted: k records cost 2k forward passes for each chain, in whole batches, whatever number is left; twice,
because each time it is proved that their features do not depend on the records beside them. A process that
is killed in between loses nothing but time: then the statistics are made anew.
"""

from __future__ import annotations

from typing import NamedTuple

from fedsgt.build.statistics import (
    backbone_checked,
    hash_of_computation,
    module_hashes,
    publish_statistic,
    renew_statistics,
)
from fedsgt.build.targets import make_recipe
from fedsgt.data import Client, Record, Slice
from fedsgt.engine.events import Listener, StatisticsMade, ignore
from fedsgt.errors import InputError
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.records import load_run_clients
from fedsgt.runs.state import Live
from fedsgt.runs.statistics import Basis, hash_of_records, missing_statistics, record_statistics
from fedsgt.stack.statistics import Statistic, check_statistic
from fedsgt.stack.steady import ROWS
from fedsgt.store import StoreError
from fedsgt.unlearning.outgoing import Outgoing


def renew(folder: RunFolder, outgoing: Outgoing | None = None, tell: Listener = ignore) -> int:
    """Make the statistics that are missing after a deletion, and return how many were made."""
    made = 0
    if outgoing is not None and outgoing.statistics:
        try:
            with backbone_checked(folder):
                made = _subtract(folder, outgoing, tell)
        except StoreError:  # another deletion has destroyed a module
            made = 0
    return made + renew_statistics(folder, tell)


def _subtract(folder: RunFolder, outgoing: Outgoing, tell: Listener) -> int:
    """Write statistics without the deleted records, where that is possible and cheaper; return how many."""
    # Imported here: accepting a request needs no torch.
    from fedsgt.engine.worker import Setup, Worker

    live = folder.live()
    divided, missing = _divided(folder, live, outgoing), missing_statistics(folder, live)
    if not any(name.client in divided for names in missing.values() for name in names):
        return 0
    # Without a cache on disk, as nothing of deleted records may be written.
    clients = [client.left for client in divided.values()]
    labels, read = live.description.labels, folder.modules.get
    worker = Worker(Setup.for_clients(folder.config, labels, clients, None, read, None))
    recipe = make_recipe(folder.config, labels, worker.model, live.description.profile)

    def basis_of(client: Client, chain: tuple[str, ...]) -> Basis:
        computed = hash_of_computation(recipe, folder.config.heads, module_hashes(folder, chain))
        return Basis(hash_of_records(client.fingerprints()), computed)

    tasks = [
        (chain, name, found)
        for prefix, names in missing.items()
        for chain in (live.description.chain(prefix),)
        for name in names
        if name.client in divided
        and (found := outgoing.of(name, basis_of(divided[name.client].whole, chain))) is not None
    ]
    made = 0
    for chain, name, found in tasks:
        client = divided[name.client]
        taken = worker.statistic_of(chain, client.left.name, Slice("", client.gone))
        if taken is None:  # features depend on the records beside them here
            continue
        new, basis = _without(found, taken, client.left), basis_of(client.left, chain)
        made += new is not None and publish_statistic(folder, name, new, basis, live.description)
        tell(StatisticsMade(made, len(tasks)))
    worker.check()
    record_statistics(folder, new=made > 0)
    return made


class Divided(NamedTuple):
    """A client before and after deletions."""

    whole: Client
    """With the records of which its statistics were made."""
    left: Client
    gone: tuple[Record, ...]


def _divided(folder: RunFolder, live: Live, outgoing: Outgoing) -> dict[int, Divided]:
    """Return the clients that lost records, by number.

    Those whose statistics cost less to make anew are left out.
    """
    numbers = outgoing.before.keys()
    clients = outgoing.clients
    if not clients:
        loaded = load_run_clients(folder, live.description, only=numbers)
        clients = {number: loaded.local[number] for number in numbers}
    found = {}
    for number, client in clients.items():
        before, now = outgoing.before[number], live.deleted[number]
        whole = client.retained(before.slices, before.records)
        left = client.retained(now.slices, now.records)
        kept = {record.id for record in left.records}
        gone = tuple(record for record in whole.records if record.id not in kept)
        if 0 < _batched(2 * len(gone)) <= _batched(len(left.records)):
            found[number] = Divided(whole, left, gone)
    return found


def _batched(records: int) -> int:
    """Return the number of forward passes over records in batches that are filled up."""
    return -(-records // ROWS) * ROWS


def _without(before: Statistic, taken: Statistic, client: Client) -> Statistic | None:
    """Return the statistic without what was taken; None if no records can have the result."""
    try:
        found = before - taken
        empty = Statistic.empty(found.size - 1, found.cross.shape[1], found.bits)
        check_statistic(found, empty, len(client.records), client.name)
    except InputError:
        return None
    return found
