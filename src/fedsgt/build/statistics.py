"""Build of statistics: those that are wanted minus those that are there (definition 10).

A statistic is a build product like a module. Each is written as soon as it is made, so that a build can be
stopped at any time, and only if no deletion has made it worthless meanwhile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
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
from fedsgt.ledger.kinds import Kind
from fedsgt.runs.description import Description
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.records import ClientData
from fedsgt.runs.register import Registers
from fedsgt.runs.state import Live
from fedsgt.runs.statistics import (
    StatisticName,
    counts_in,
    discard_all,
    missing_statistics,
    most_of_a_client,
    note_of,
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
    live, settings = folder.live(), prepared.run.heads
    tasks = _tasks(folder, live, prepared.data)
    if not tasks:
        return 0
    sources = {
        number: source_hash(prepared.recipe, settings, prepared.clients[number].fingerprints())
        for number in {name.client for name in tasks.values()}
    }
    most, made = most_of_a_client(len(prepared.clients), settings.bits), 0
    tell(StatisticsMade(0, len(tasks)))
    try:
        for task, statistic in engine.statistics(list(tasks)):
            name = tasks[task]
            if statistic.records > most:
                tell(ClientTrouble(task.client, _too_many(statistic.records, most, settings.bits)))
                continue
            made += publish_statistic(folder, name, statistic, sources[name.client])
            tell(StatisticsMade(made, len(tasks)))
    except StoreError:
        # A deletion that came in meanwhile has destroyed a module; else the module is damaged.
        if folder.live().last_request == live.last_request:
            raise
    record_statistics(folder)
    return made


def _too_many(records: int, most: int, bits: int) -> str:
    return (
        f"statistic refused: {counted(records, 'record')}, and with more than {most} of each client sums of "
        f"{bits} bits could overflow; set heads.bits to less"
    )


def source_hash(recipe: Recipe, settings: Heads, fingerprints: Sequence[str]) -> str:
    """Return a hash of all that a client's statistic is made of besides the modules of its chain.

    Only from a statistic of the same records, settings, backbone and way of computing may records be taken
    away: other ones would leave a part of them in it.
    """
    computed = canonical_json(recipe.profile)
    shaped = frames("fedsgt.statistic.1", recipe.config_hash, recipe.backbone, computed, repr(settings.share))
    records = frames(settings.bits, len(fingerprints), *fingerprints)
    return hashlib.sha256(shaped + records).hexdigest()


def discard_stale(folder: RunFolder, prepared: Prepared) -> None:
    """Remove the statistics that were made of other records than these.

    A training puts the records of hit groups into the description as they are now, also those that changed
    without a deletion.
    """
    with folder.publishing() as live:
        for name in [name for names in statistics_in_force(folder, live).values() for name in names]:
            note, fingerprints = note_of(folder, name), prepared.clients[name.client].fingerprints()
            now = source_hash(prepared.recipe, prepared.run.heads, fingerprints)
            if note is not None and note.source not in ("", now):
                Folder(folder.path).delete(name.file)


def publish_statistic(folder: RunFolder, name: StatisticName, statistic: Statistic, source: str) -> bool:
    """Write a statistic unless a deletion has hit its chain or client; return whether it was written."""
    with folder.publishing() as now:
        if not counts_in(now, name):
            return False
        write_statistic(folder, name, statistic, source)
        return True


def record_statistics(folder: RunFolder) -> None:
    """Record in the ledger how many statistics count, if that changed; predictors then look for new ones."""
    # Counted under the lock: no deletion may end some of them between the counting and the entry.
    with folder.publishing() as live:
        there = sum(map(len, statistics_in_force(folder, live).values()))
        entries = (entry for entry in reversed(folder.ledger.entries()) if entry.kind == Kind.STATISTICS)
        last = next(entries, None)
        # After a deletion others may be as many as before, so that the number alone says nothing.
        if last is None or last.body["statistics"] != there or last.position < live.last_request:
            with folder.ledger.writing() as writer:
                writer.append(Kind.STATISTICS, {"statistics": there})


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
