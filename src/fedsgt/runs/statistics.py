"""Statistics of clients' records under chains of modules, from which heads are solved (definition 10).

There is one file for each chain and client. Its name has the mark of the deletions that its records were
without, so that it stops counting as soon as the ledger has another deletion of that client.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedsgt.errors import InputError
from fedsgt.files.encoding import frames
from fedsgt.files.tensors import Tensors, pack, read_note, tensor_hash, told_size, unpack
from fedsgt.ledger.kinds import Kind
from fedsgt.plans import Prefix, choose
from fedsgt.runs.artefacts import BARE, STATISTIC_NAME, STATISTICS
from fedsgt.runs.dependencies import Dead, FromStatistic
from fedsgt.runs.records_left import records_left
from fedsgt.runs.state import Live
from fedsgt.stack import profile
from fedsgt.stack.statistics import Statistic, most_records
from fedsgt.store import Folder, StoreError

if TYPE_CHECKING:  # only a type: the module of `RunFolder` imports this one
    from fedsgt.runs.folder import RunFolder


@dataclass(frozen=True, order=True)
class StatisticName:
    """One client's statistic under one chain of modules."""

    chain: str
    """Key of the chain's last module, or `BARE` for the bare backbone."""
    client: int
    """Number of the client in the run's description."""
    mark: str
    """Mark of the deletions that its records are without."""

    @property
    def file(self) -> str:
        """Name of the file in the run's folder."""
        return f"{STATISTICS}/{self.chain}/{self.client}-{self.mark}.safetensors"

    @property
    def made_of(self) -> FromStatistic:
        """Dependence of the file, by which destruction goes too."""
        return FromStatistic(None if self.chain == BARE else self.chain, self.client, self.mark)

    @classmethod
    def of_file(cls, path: Path) -> StatisticName | None:
        """Return the name that a file stands for; None if it is none of a statistic."""
        found = STATISTIC_NAME.fullmatch(path.name)
        return None if found is None else cls(path.parent.name, int(found[1]), found[2])


def chain_name(live: Live, prefix: Prefix) -> str:
    """Return the name of the chain of modules along this prefix."""
    return live.description.keys[prefix] if prefix else BARE


def wanted_chains(folder: RunFolder, live: Live) -> list[Prefix]:
    """Return the chains that are to have statistics, the bare backbone first; none if nothing is solved."""
    settings = folder.config.heads
    if not settings.solve:
        return []
    prefixes = live.prefixes(folder.present())
    if settings.when == "serve":
        return [(), *(prefix for _, prefix, _ in choose(folder.config.serving.strategy, prefixes))]
    # Chains of one module come first, as they need their heads most.
    ends = {prefix[:depth] for prefix in prefixes for depth in range(1, len(prefix) + 1)}
    return [(), *sorted(ends, key=lambda prefix: (len(prefix), prefix))]


def missing_statistics(folder: RunFolder, live: Live) -> dict[Prefix, list[StatisticName]]:
    """Return the statistics that are wanted and not there, by chain."""
    there, chains = present_statistics(folder), wanted_chains(folder, live)
    clients = range(len(live.description.clients)) if chains else ()
    marks = {number: live.mark_of(number) for number in clients if any(records_left(live, number))}
    found = {}
    for chain in chains:
        wanted = (StatisticName(chain_name(live, chain), number, mark) for number, mark in marks.items())
        found[chain] = [name for name in wanted if name not in there]
    return {chain: names for chain, names in found.items() if names}


def present_statistics(folder: RunFolder) -> set[StatisticName]:
    """Return the statistics that are there, also those that do not count any more."""
    place = folder.path / STATISTICS
    names = (StatisticName.of_file(path) for path in place.glob("*/*") if not path.parent.is_symlink())
    return {name for name in names if name is not None}


def statistics_in_force(folder: RunFolder, live: Live) -> dict[str, list[StatisticName]]:
    """Return the statistics that count in this state, by the name of their chain, in the order of clients."""
    dead, found = Dead.at(live), dict[str, list[StatisticName]]()
    for name in sorted(present_statistics(folder)):
        if not dead.reaches(name.made_of):
            found.setdefault(name.chain, []).append(name)
    return found


def counts_in(live: Live, name: StatisticName) -> bool:
    """Whether the statistic counts: its chain is live, and no deletion has hit its client since."""
    return not Dead.at(live).reaches(name.made_of)


@dataclass(frozen=True)
class Basis:
    """Hashes of all that a statistic was made of; empty where that is not known.

    Only from a statistic of the same basis may records be taken away: of another one a part would be left.
    """

    records: str = ""
    """Hash of the fingerprints of the client's slices."""
    computed: str = ""
    """Hash of the modules, the backbone, the settings and the way of computing."""


UNKNOWN = Basis()


def hash_of_records(fingerprints: Sequence[str]) -> str:
    """Return the hash that stands for a client's records, of whatever groups."""
    return hashlib.sha256(frames("fedsgt.statistic.records.1", *fingerprints)).hexdigest()


def write_statistic(
    folder: RunFolder, name: StatisticName, statistic: Statistic, basis: Basis = UNKNOWN
) -> None:
    """Write a statistic; the caller must hold the store's lock and have checked that it counts."""
    tensors = statistic_tensors(statistic)
    # Another type of machine may give other bytes, which verification must tell from tampering.
    told = {"sha256": tensor_hash(tensors), "records": statistic.records, "machine": profile.machine()}
    made_of = {"of_records": basis.records, "computed": basis.computed}
    Folder(folder.path).write(name.file, pack(tensors, json.dumps(told | made_of)))


def read_statistic(folder: RunFolder, name: StatisticName) -> Statistic | None:
    """Return a statistic; None if it is gone or damaged, so that it has to be made anew."""
    with suppress(KeyError, StoreError):
        return _parsed(Folder(folder.path).read(name.file))
    return None


def _parsed(data: bytes) -> Statistic | None:
    """Return the statistic that a file holds; None if it is damaged."""
    try:
        tensors = unpack(data)
        if json.loads(read_note(data))["sha256"] != tensor_hash(tensors):
            return None
        records, bits = tensors["records"].tolist()
        return Statistic(tensors["gram"], tensors["cross"], records, bits)
    except (KeyError, TypeError, ValueError, InputError):
        return None


def discard_all(folder: RunFolder) -> None:
    """Remove all statistics, also those that count, so that they are made anew."""
    with folder.publishing():
        for name in present_statistics(folder):
            Folder(folder.path).delete(name.file)
        _record(folder, folder.live())


@dataclass(frozen=True)
class StatisticNote:
    """Content of a statistic's header."""

    sha256: str
    """Hash of the tensors."""
    records: int
    machine: Mapping[str, str]
    """Machine that made it, or that a client's statistic came in at."""
    basis: Basis


def note_of(folder: RunFolder, name: StatisticName) -> StatisticNote | None:
    """Return what the header of a statistic says, without reading the rest.

    None if it is gone, if its header cannot be read, or if the file has another size than the header says:
    whether its numbers are as they were written shows only when all of it is read.
    """
    try:
        with (folder.path / name.file).open("rb") as file:
            length = file.read(8)
            header = length + file.read(int.from_bytes(length, "little"))
            if os.fstat(file.fileno()).st_size != told_size(header):
                return None
        told = json.loads(read_note(header))
        basis = Basis(str(told.get("of_records", "")), str(told.get("computed", "")))
        machine = dict(told.get("machine", {}))
        return StatisticNote(str(told["sha256"]), int(told["records"]), machine, basis)
    except (
        OSError,
        LookupError,
        AttributeError,
        TypeError,
        ValueError,
        InputError,
        MemoryError,
        OverflowError,
    ):
        return None


def discard_damaged(folder: RunFolder) -> int:
    """Remove the statistics that count and are damaged, so that they are made anew; return how many.

    All of them are read, which takes about a second for 500 MB.
    """
    names = [name for found in statistics_in_force(folder, folder.live()).values() for name in found]
    damaged = [name for name in names if _is_damaged(folder, name)]
    removed = 0
    for name in damaged:
        with folder.publishing():  # a whole one may have taken its place meanwhile
            if _is_damaged(folder, name):
                Folder(folder.path).delete(name.file)
                removed += 1
    if removed:
        record_statistics(folder)
    return removed


def _is_damaged(folder: RunFolder, name: StatisticName) -> bool:
    """Whether the file is there and is not as it was written; one that cannot be read just now may be."""
    with suppress(KeyError, StoreError):
        return _parsed(Folder(folder.path).read(name.file)) is None
    return False


def discard_outdated(folder: RunFolder, live: Live) -> None:
    """Remove the statistics of records that the run's new description does not have.

    It may lack records that left their source without a deletion. The caller must hold the store's lock.
    """
    there = [name for names in statistics_in_force(folder, live).values() for name in names]
    now = {number: hash_of_records(client.slices) for number, client in enumerate(live.description.clients)}
    notes = {name: note_of(folder, name) for name in there}
    outdated = [
        name for name, note in notes.items() if note and note.basis.records not in ("", now[name.client])
    ]
    for name in outdated:
        Folder(folder.path).delete(name.file)
    if outdated:
        _record(folder, folder.live())


def record_statistics(folder: RunFolder, new: bool = False) -> None:
    """Record in the ledger how many statistics count if there are `new` ones or another number of them.

    Predictors then look for them.
    """
    # Counted under the lock: no deletion may end some of them between the counting and the entry.
    with folder.publishing() as live:
        _record(folder, live, new)


def _record(folder: RunFolder, live: Live, new: bool = False) -> None:
    there = sum(map(len, statistics_in_force(folder, live).values()))
    entries = (entry for entry in reversed(folder.ledger.entries()) if entry.kind == Kind.STATISTICS)
    last = next(entries, None)
    # After a deletion others may be as many as before, so that the number alone says nothing.
    if new or last is None or last.body["statistics"] != there or last.position < live.last_request:
        with folder.ledger.writing() as writer:
            writer.append(Kind.STATISTICS, {"statistics": there})


def records_behind(folder: RunFolder, there: Mapping[str, Sequence[StatisticName]]) -> int:
    """Return the number of records behind the bare backbone's head, by the headers of these statistics."""
    notes = (note_of(folder, name) for name in there.get(BARE, ()))
    return sum(note.records for note in filter(None, notes))


def statistic_tensors(statistic: Statistic) -> Tensors:
    """Return the arrays of a statistic, whose hash tells it from others."""
    counts = np.array([statistic.records, statistic.bits], np.int64)
    return {"gram": statistic.gram, "cross": statistic.cross, "records": counts}


def sum_of(folder: RunFolder, names: Iterable[StatisticName]) -> tuple[Statistic | None, list[StatisticName]]:
    """Return the sum of the statistics that are whole, None if none is, and their names.

    One that would make the sum overflow is left out: `most_of_a_client` lets none be written.
    """
    total: Statistic | None = None
    used = []
    for name in names:  # one is in memory at a time, as there may be thousands of clients
        one = read_statistic(folder, name)
        if one is None or (total is not None and total.records + one.records > most_records(one.bits)):
            continue
        total = one if total is None else total + one
        used.append(name)
    return total, used


def most_of_a_client(clients: int, bits: int) -> int:
    """Return the number of records of one client up to which no sum over all clients can overflow."""
    return most_records(bits) // clients
