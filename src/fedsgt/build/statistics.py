"""Build of statistics: those that are wanted minus those that are there (definition 10).

A statistic is a build product like a module. Each is written as soon as it is made, so that a build can be
stopped at any time, and only if no deletion has made it worthless meanwhile.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from fedsgt.build.client_access import LOCAL, ClientAccess
from fedsgt.build.prepare import Prepared, check_reproducible, describe, prepare_again
from fedsgt.build.targets import Recipe
from fedsgt.config.sections import Heads
from fedsgt.data import AnyClient
from fedsgt.engine.events import ClientTrouble, Listener, StatisticsMade, ignore
from fedsgt.engine.task import Engine, StatisticTask
from fedsgt.errors import BackboneChanged, InputError
from fedsgt.files.encoding import canonical_json, frames
from fedsgt.runs.artefacts import BARE
from fedsgt.runs.description import Description
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.records import ClientData
from fedsgt.runs.register import Registers
from fedsgt.runs.state import Live
from fedsgt.runs.statistics import (
    Basis,
    StatisticName,
    StatisticNote,
    counts_in,
    discard_all,
    hash_of_records,
    missing_statistics,
    most_of_a_client,
    note_of,
    record_statistics,
    statistics_in_force,
    write_statistic,
)
from fedsgt.stack.statistics import Statistic
from fedsgt.store import Folder, StoreError
from fedsgt.words import counted

CHANGED = (
    "its records changed without a deletion since the run was made, so that it has no statistics: if records "
    "left, delete them here too (fedsgt unlearn RUN --subject ID)"
)


def renew_statistics(folder: RunFolder, tell: Listener = ignore, access: ClientAccess = LOCAL) -> int:
    """Make the statistics that are missing, and return how many were made.

    Predictions and deletions go on meanwhile; a deletion that comes in makes it start again.
    """
    made = 0
    while True:
        live = folder.live()
        missing = missing_statistics(folder, live)
        if not missing:
            record_statistics(folder)
            return made
        lacking = {name.client for names in missing.values() for name in names}
        prepared = _prepared(folder, live, access, lacking, tell)
        with backbone_checked(folder), access.engine(folder, prepared, tell) as engine:
            made += make_statistics(folder, prepared, engine, tell)
        # Clients that take no part are not asked again until something changes.
        if folder.live().last_request == live.last_request:
            return made


@contextmanager
def backbone_checked(folder: RunFolder) -> Iterator[None]:
    """Destroy all statistics if the frozen weights turn out to be others: nobody knows since when."""
    try:
        yield
    except BackboneChanged:
        discard_all(folder)
        raise


def make_statistics(folder: RunFolder, prepared: Prepared, engine: Engine, tell: Listener = ignore) -> int:
    """Make the missing statistics of the prepared records, and return how many were made."""
    discard_stale(folder, prepared.recipe)
    live = folder.live()
    tasks = _tasks(folder, live, prepared.data)
    if not tasks:
        return 0
    maker = _Maker(folder, live, prepared, tell, tasks)
    tell(StatisticsMade(0, len(tasks)))
    try:
        for task, statistic in engine.statistics(list(tasks)):
            maker.take(task, statistic)
    except StoreError:
        # A deletion that came in meanwhile has destroyed a module; else the module is damaged.
        if folder.live().last_request == live.last_request:
            raise
    finally:
        # Also after a stop: predictors must look for what is there.
        record_statistics(folder, new=maker.unrecorded > 0)
        # A training at the same time may have put other modules in the place of those that were used.
        discard_stale(folder, prepared.recipe)
    return maker.made


class _Maker:
    """Writes statistics as they are made."""

    def __init__(
        self,
        folder: RunFolder,
        live: Live,
        prepared: Prepared,
        tell: Listener,
        tasks: Mapping[StatisticTask, StatisticName],
    ) -> None:
        self.folder, self.live, self.prepared = folder, live, prepared
        self.tell, self.tasks = tell, tasks
        self.bits = prepared.run.heads.bits
        self.most = most_of_a_client(len(prepared.clients), self.bits)
        hashes = {chain: module_hashes(folder, chain) for chain in {task.chain for task in tasks}}
        self.computed = {
            chain: hash_of_computation(prepared.recipe, folder.config.heads, found)
            for chain, found in hashes.items()
        }
        self.left = Counter(task.client for task in tasks)
        """Number of statistics that each client has still to make."""
        self.made = self.unrecorded = 0

    def take(self, task: StatisticTask, statistic: Statistic) -> None:
        """Write a statistic if it still counts."""
        name = self.tasks[task]
        self.left[task.client] -= 1
        if statistic.records > self.most:
            self.tell(ClientTrouble(task.client, _too_many(statistic.records, self.most, self.bits)))
            return
        records = hash_of_records(self.prepared.clients[name.client].fingerprints())
        basis = Basis(records, self.computed[task.chain])
        written = publish_statistic(self.folder, name, statistic, basis, self.live.description)
        self.made += written
        self.unrecorded += written
        self.tell(StatisticsMade(self.made, len(self.tasks)))
        # A client that is waited for, even for days, must not hold up what others have sent.
        if self.prepared.data.remote and not self.left[task.client] and self.unrecorded:
            record_statistics(self.folder, new=True)
            self.unrecorded = 0


def _too_many(records: int, most: int, bits: int) -> str:
    return (
        f"statistic refused: {counted(records, 'record')}, and with more than {most} of each client sums of "
        f"{bits} bits could overflow; set heads.bits to less"
    )


def module_hashes(folder: RunFolder, chain: Sequence[str]) -> tuple[str, ...]:
    """Return the hash of the tensors of each module in a chain.

    A module that was lost and trained again without some client has the same key and other tensors.
    """
    return tuple(folder.modules.manifest(key).sha256 for key in chain)


def hash_of_computation(recipe: Recipe, settings: Heads, modules: Sequence[str]) -> str:
    """Return a hash of all that a statistic is made of besides records; `modules` are their hashes."""
    how = frames(recipe.config_hash, recipe.backbone, canonical_json(recipe.profile))
    made = frames("fedsgt.statistic.2", repr(settings.share), settings.bits, *modules)
    return hashlib.sha256(how + made).hexdigest()


def discard_stale(folder: RunFolder, recipe: Recipe) -> None:
    """Remove the statistics that were not made with this recipe and the modules that are there now."""
    live = folder.live()
    prefixes = {key: prefix for prefix, key in live.description.keys.items()} | {BARE: ()}
    stale = dict[StatisticName, StatisticNote]()
    for chain, names in statistics_in_force(folder, live).items():
        try:
            modules = module_hashes(folder, live.description.chain(prefixes[chain]))
        except StoreError:  # until it is trained again, nothing says that they are
            continue
        now = hash_of_computation(recipe, folder.config.heads, modules)
        notes = {name: note_of(folder, name) for name in names}
        stale |= {name: note for name, note in notes.items() if note and note.basis.computed not in ("", now)}
    # Looked for without the lock, which a deletion would have to wait for.
    for name, note in stale.items():
        with folder.publishing():
            if note_of(folder, name) == note:
                Folder(folder.path).delete(name.file)
    if stale:
        record_statistics(folder)


def publish_statistic(
    folder: RunFolder, name: StatisticName, statistic: Statistic, basis: Basis, described: Description
) -> bool:
    """Write a statistic of records that were `described`; return whether it was written.

    It is not if a deletion has hit its chain or client since, or if the run has another description.
    """
    with folder.publishing() as now:
        if not counts_in(now, name) or (now.description is not described and now.description != described):
            return False
        write_statistic(folder, name, statistic, basis)
        return True


def _tasks(folder: RunFolder, live: Live, data: ClientData) -> dict[StatisticTask, StatisticName]:
    """Return a task for each missing statistic that can be made of these records."""
    found = {}
    for prefix, names in missing_statistics(folder, live).items():
        for name in names:
            # Records that were loaded before a deletion still have what was deleted.
            if name.mark != data.mark_of(name.client) or name.client in data.changed:
                continue
            found[statistic_task(live.description.chain(prefix), data.clients[name.client])] = name
    return found


def statistic_task(chain: tuple[str, ...], client: AnyClient) -> StatisticTask:
    """Return the task of a statistic of all of the client's records, whatever groups they are in."""
    return StatisticTask(chain, client.name, tuple(range(len(client.slice_sizes()))))


def _prepared(
    folder: RunFolder, live: Live, access: ClientAccess, lacking: Collection[int], tell: Listener
) -> Prepared:
    """Load the retained records, and check those of `lacking` clients and this machine by the description.

    A client whose records changed without a request is told and left out, so that it holds up no other.
    """
    known = live.description
    registers = Registers(folder.path, known)
    data = access.load_clients(folder.config, known, live.deleted, registers, lacking)
    prepared = prepare_again(folder.config, data, known, known.plan_made())
    found = describe(prepared, known, known.as_of)
    alike = found.model_copy(update={"clients": known.clients})
    difference = known.difference(alike, live.dead)
    if difference is not None:
        raise InputError(
            f"{folder.path}: {difference} since this run was made, so that no statistics can be made of it; "
            "nothing was changed, and heads that can be solved go on answering"
        )
    changed = set(data.changed)  # those were told
    for number in sorted(set(lacking) - changed):
        problem = _problem(live, found, number) or _other_machine(data, number, prepared.recipe)
        if problem is not None:
            tell(ClientTrouble(known.clients[number].name, problem))
            changed.add(number)
    # A deletion buries activations by the fingerprints of the description. Those of other slices, such as one
    # that has lost a record since, would stay.
    described = {fingerprint for client in known.clients for fingerprint in client.slices}
    keeps = all(described.issuperset(client.fingerprints()) for client in prepared.clients)
    return replace(prepared, data=replace(data, changed=frozenset(changed)), keeps_activations=keeps)


def _problem(live: Live, found: Description, number: int) -> str | None:
    """Return why no statistic can be made of a client's records as they are found; None if one can."""
    known, lost = live.description, set(live.hit_slices())
    pairs = zip(known.clients[number].slices, found.clients[number].slices, strict=False)
    # In a dead group, too, a slice is as it was registered unless a deletion took records out of it.
    moved = any(was != now and was not in lost for was, now in pairs)
    return CHANGED if moved or known.client_differs(found, number, live.dead) else None


def _other_machine(data: ClientData, number: int, recipe: Recipe) -> str | None:
    """Return why a remote client's statistic could not be made again elsewhere; None if it could."""
    if not data.remote:
        return None
    client = data.remote[number]
    try:
        check_reproducible(client, recipe)
    except InputError as error:
        return str(error).removeprefix(f"client {client.name}: ")
    return None
