"""Rejoining: a client that left comes back with new records, and no live module is trained again.

Its slices form new groups, whose modules are trained on top of the live prefixes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from fedsgt.build.prepare import Prepared, check_records, describe, prepare
from fedsgt.build.run_build import open_build
from fedsgt.build.statistics import make_statistics
from fedsgt.build.targets import Target
from fedsgt.build.train import bring_up_to_date, live_after_recovery, record_built, work_of
from fedsgt.data import Client
from fedsgt.data.sources.memory import GivenRecords
from fedsgt.engine.events import Listener
from fedsgt.errors import InputError
from fedsgt.runs.description import ClientEntry, Description
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.kept_records import IN_RUN, drop_kept, write_kept
from fedsgt.runs.records import load_new_records
from fedsgt.runs.register import Register, Registers, with_registers
from fedsgt.unlearning.erase import place_of, sources
from fedsgt.unlearning.recovery import recover
from fedsgt.unlearning.request import AGAIN, enrolments, has_simulated_clients
from fedsgt.words import counted

Orders = list[list[int]]


@dataclass(frozen=True)
class Joined:
    """Result of a rejoining."""

    name: str
    """Name of the client in its new enrolment."""
    records: int
    """Number of its records."""
    groups: list[int]
    """Numbers of the new groups."""
    trained: int
    """Number of modules that were trained; those that were live are as they were."""


def rejoin(
    folder: RunFolder,
    client: str,
    source: Path | GivenRecords,
    slices: int,
    groups: int,
    tell: Listener,
) -> Joined:
    """Enrol the client again with these records, and train its groups on top of each live prefix.

    Records that are given in memory are kept in the run's folder.
    """
    if folder.config.data.partition == "remote":
        raise InputError(f"{folder.path}: a client that holds its data itself comes back in a new run")
    if groups > slices:
        raise InputError(f"groups: {groups} for {counted(slices, 'slice')}; at most one for each slice")
    # A mistake is told before the description is brought up to date.
    known = folder.live().description
    given = _new_enrolment(folder, known, client, source, slices)
    check_records(folder.config, known.labels, given.records)
    # No training may go on meanwhile: it would work from the old description.
    with folder.locked():
        bring_up_to_date(folder, recover)
        while True:
            live = live_after_recovery(folder, recover)
            known, first = live.description, live.description.groups
            made = _new_enrolment(folder, known, client, source, slices)
            entry = _entry(made, source)
            wider = _widened(known, entry, groups, live.prefixes(folder.present()))
            with _kept(folder, len(known.clients), made, source):
                prepared = prepare(folder.config, wider, live.deleted, Registers(folder.path, wider))
                _check(prepared, entry.name)
                fresh = describe(prepared, wider, live.position if live.dead else known.as_of)
                with folder.publishing() as now:
                    # A request since then may have shortened the prefixes that the new groups stand on.
                    if now.last_request == live.last_request and now.description is known:
                        folder.describe_anew(with_registers(folder.path, fresh, _registered(prepared)))
                        break
        added = list(range(first, first + groups))
        return Joined(entry.name, sum(entry.records), added, _train(folder, prepared, added, tell))


def _new_enrolment(
    folder: RunFolder, known: Description, client: str, source: Path | GivenRecords, slices: int
) -> Client:
    """Return the client under the name of its new enrolment, with its new records."""
    first = known.clients[enrolments(known, client, has_simulated_clients(folder))[0]]
    base = first.name if first.source is None else first.name.rpartition(AGAIN)[0]
    # The new enrolment has a name of its own: salt and slicing follow from it, and so differ from those of
    # earlier enrolments.
    taken = {entry.name for entry in known.clients}
    name = next(name for time in count(2) if (name := f"{base}{AGAIN}{time}") not in taken)
    if isinstance(source, Path) and place_of(str(source.resolve())) in sources(folder, known):
        raise InputError(
            f"{source}: records of this run are in it already; give new ones a file of their own"
        )
    records = load_new_records(folder.config, source, known)
    if len(records) < slices:
        where = source if isinstance(source, Path) else "data"
        raise InputError(
            f"{where}: {counted(len(records), 'record')} for {counted(slices, 'slice')}; ask for fewer slices"
        )
    return Client.simulated(name, records, slices, folder.config.data.seed)


def _entry(made: Client, source: Path | GivenRecords) -> ClientEntry:
    return ClientEntry(
        name=made.name,
        slices=list(made.fingerprints()),
        records=list(made.slice_sizes()),
        source=str(source.resolve()) if isinstance(source, Path) else IN_RUN,
    )


@contextmanager
def _kept(folder: RunFolder, number: int, client: Client, source: Path | GivenRecords) -> Iterator[None]:
    """Keep records from memory in the run's folder; take them out again if the client has not joined."""
    if isinstance(source, Path):
        yield
        return
    write_kept(folder.path, {number: client})
    try:
        yield
    except BaseException:
        # The ledger decides: once it knows the client, these are the only copy of its records.
        if number >= len(folder.live().description.clients):
            drop_kept(folder.path, number)
        raise


def _widened(
    known: Description, entry: ClientEntry, groups: int, prefixes: Sequence[tuple[int, ...]]
) -> Description:
    """Return the description with the new groups right after each live prefix, and as roots of their own."""
    # Groups after a live prefix are dead and would be trained anew in any case, so no work is lost.
    first = known.groups
    # Rotations of the new groups, so that one hit among them does not end every sequence at once.
    turns = [[first + (turn + index) % groups for index in range(groups)] for turn in range(groups)]
    orders: Orders = []
    for number, (order, prefix) in enumerate(zip(known.sequences, prefixes, strict=True)):
        orders.append([*prefix, *turns[number % groups], *order[len(prefix) :]])
    sequences = list(dict.fromkeys(tuple(order) for order in (*orders, *turns)))
    return known.model_copy(
        update={
            "clients": [*known.clients, entry],
            "group_of": [*known.group_of, *(first + index % groups for index in range(len(entry.slices)))],
            "sequences": [list(order) for order in sequences],
        }
    )


def _registered(prepared: Prepared) -> dict[int, Register]:
    """Return the register of the new enrolment, which is the last client, by its number."""
    number = len(prepared.data.local) - 1
    client = prepared.data.local[number]
    return {number: Register.of(client.name, (record.id for record in client.records))}


def _check(prepared: Prepared, name: str) -> None:
    """Check that every new record can be learnt from, before anything is written."""
    (client,) = (client for client in prepared.data.local if client.name == name)
    for record in client.records:
        prepared.model.inputs.item(record.id, record.content)


def _train(folder: RunFolder, prepared: Prepared, added: Sequence[int], tell: Listener) -> int:
    """Train the modules of the new groups that stand on live modules or on one another, and count them."""
    wanted: list[Target] = [
        target for target in prepared.targets if target.groups[-1] in added and _stands(folder, target, added)
    ]
    tell(work_of(prepared, wanted))
    with open_build(folder, prepared, tell) as build:
        trained = build.run(wanted)
        make_statistics(folder, prepared, build.engine, tell)
    record_built(folder)
    return len(trained)


def _stands(folder: RunFolder, target: Target, added: Sequence[int]) -> bool:
    """Whether every module below the target is present or belongs to a new group."""
    below = zip(target.parents, target.groups[:-1], strict=True)
    return all(group in added or folder.modules.state(key) == "present" for key, group in below)
