"""Erasure of deleted records from the files that the clients' records are in.

Files that must not be written, or cannot be, keep them: there the ledger is the tombstone, and everybody
who loads the clients' records leaves out what it names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from fedsgt.data import ROW, Client
from fedsgt.data.sources.erasure import Action, erase_records, images_kept, planned_action, why_kept
from fedsgt.data.sources.files import SUFFIXES, TRAIN, Stamp, stamps_of, training_files
from fedsgt.errors import InputError
from fedsgt.files.encoding import frames
from fedsgt.runs.description import Description
from fedsgt.runs.destruction import Artefact
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.kept_records import IN_RUN, kept_in
from fedsgt.runs.records import ClientData, input_columns, load_run_clients
from fedsgt.runs.register import Registers
from fedsgt.runs.state import DeletedData, Live

RowsByFile: TypeAlias = dict[Path, dict[str, str]]
PartJson: TypeAlias = Mapping[str, Any]
"""Part of a request, as the ledger has it."""
Stamps: TypeAlias = dict[Path, list[Stamp] | None]


def sources(folder: RunFolder, description: Description) -> dict[Path, set[int]]:
    """Return the local files that the run's records are in, each with the numbers of its clients.

    Where the records are a folder of images, it is that folder.
    """
    data = folder.config.data
    # Records that the run keeps in its own folder are artefacts of it, and no file of anybody else.
    here = data.partition != "remote" and kept_in(folder.config) is None
    own = place_of(data.source) if here else None
    found: dict[Path, set[int]] = {}
    for number, client in enumerate(description.clients):
        path = own if client.source is None else place_of(client.source)
        if path is not None and client.source != IN_RUN:
            found.setdefault(path, set()).add(number)
    return found


def place_of(source: str) -> Path | None:
    """Return the file or folder of a source's training records, there or not; None if it is not local."""
    found, path = None, Path(source)
    with suppress(OSError):  # a folder may be closed to us
        found = training_files(source)
    # Paths are absolute in a run's settings; other names are those of data sets.
    if found is not None or not path.is_absolute():
        return found
    return path if path.suffix.lower() in SUFFIXES else path / TRAIN


def why_left(folder: RunFolder, path: Path) -> str | None:
    """Return why this file keeps deleted rows; None if they are taken out of it (definition 13).

    The reason names no file: it stands in certificates, and a file's name may say whose records are in it.
    """
    data = folder.config.data
    own = data.partition != "remote" and path == place_of(data.source)
    dealt, limited = own and data.partition != "given", own and data.limit is not None
    if data.erase == "tombstone":
        return "data.erase is tombstone: the file is its owner's, and this run leaves the rows out for good"
    if data.id_column == ROW:
        return "its ids are row numbers, which would move"
    if dealt or limited:
        return (
            "all clients' records are dealt from the whole file" if dealt else "data.limit chooses its rows"
        )
    return why_kept(path)


class SourceReader:
    """Reads the clients' records once for all steps of a deletion.

    Reading takes long, so it is done before the store's lock is taken. Under the lock it is only checked that
    nothing has changed since: neither the run's description nor the files.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._read_at: tuple[Description, Stamps] | None = None
        self._clients: dict[int, Client] = {}
        self._failed: dict[int, InputError] = {}
        self._registers: Registers | None = None

    def registers(self, description: Description) -> Registers:
        """Return the registers of the run as this description has them."""
        if self._registers is None or self._registers.description is not description:
            self._registers = Registers(self.folder.path, description)
        return self._registers

    def read(self, live: Live, also: Collection[int] = ()) -> None:
        """Read the clients whose files deleted records must leave, and those with the numbers `also`."""
        if self._is_outdated(live):
            self._read_at, self._clients, self._failed = None, {}, {}
        missing = self._lacks(live, also)
        if missing:
            # The stamps come first: a file that changes while it is read is then found to be outdated. They
            # stay those of the first reading, as what was read then is used on.
            self._read_at = self._read_at or (live.description, _stamps(self.folder, live))
            self._load(live, missing)

    def client(self, number: int) -> Client:
        """Return a client that was read, or raise the error that came when it was."""
        if number in self._failed:
            raise self._failed[number]
        return self._clients[number]

    @contextmanager
    def publishing(self) -> Iterator[Live]:
        """Hold the store's lock, with the records read as they are; without the lock while they are read."""
        while True:
            # Read before the lock is taken; if anything changed meanwhile, the reading starts again.
            self.read(self.folder.live())
            with self.folder.publishing() as live:
                if not self._is_outdated(live) and not self._lacks(live):
                    yield live
                    return

    def unreadable(self, live: Live) -> list[Path]:
        """List the files that deleted records were in and that could not be read: moved or damaged ones."""
        if self._read_at is None:  # another process completed the request, or it was completed before
            self.read(live)
        return [
            path for path, numbers in _touched(self.folder, live).items() if numbers & self._failed.keys()
        ]

    def _lacks(self, live: Live, also: Collection[int] = ()) -> set[int]:
        wanted = set(also).union(*_touched(self.folder, live).values())
        return wanted - self._clients.keys() - self._failed.keys()

    def _is_outdated(self, live: Live) -> bool:
        if self._read_at is None:
            return False
        description, stamps = self._read_at
        # Identity is enough: an unchanged file gives the same object, and comparing thousands of modules is
        # slow.
        return description is not live.description or stamps != _stamps(self.folder, live)

    def _load(self, live: Live, numbers: set[int]) -> None:
        try:
            self._keep(live, numbers, load_run_clients(self.folder, live.description, only=numbers))
        except InputError as error:
            if len(numbers) == 1:
                self._failed[numbers.pop()] = error
                return
            # One client's lost file must not keep the others' records from being found.
            for number in numbers:
                self._load(live, {number})

    def _keep(self, live: Live, numbers: Collection[int], found: ClientData) -> None:
        for number, entry in enumerate(live.description.clients):
            if number in numbers or entry.source is None:
                self._clients[number] = found.local[number]


def rows_to_erase(folder: RunFolder, live: Live, reader: SourceReader) -> RowsByFile:
    """Return the ids of deleted records that are still in each file, with their salted hashes."""
    found: RowsByFile = {}
    for path, numbers in _touched(folder, live).items():
        if why_left(folder, path) is None:
            rows: dict[str, str] = {}
            for number in numbers:
                # Nothing can be taken out of a file that cannot be read: there the ledger is the tombstone.
                with suppress(InputError):
                    rows |= _deleted_rows(reader.client(number), live.deleted[number])
            if rows:
                found[path] = rows
    return found


def without_rows(rows: RowsByFile, others: RowsByFile) -> RowsByFile:
    """Return the rows of each file that are not among the others."""
    left = {
        path: {record: code for record, code in gone.items() if record not in others.get(path, {})}
        for path, gone in rows.items()
    }
    return {path: gone for path, gone in left.items() if gone}


def condemned_rows(rows: RowsByFile) -> list[Artefact]:
    """Return the rows that leave each file as certificates list them: hashed, under the file's name."""
    return [
        Artefact(path.name, "source", hashlib.sha256(frames(*sorted(gone.values()))).hexdigest())
        for path, gone in rows.items()
    ]


@dataclass(frozen=True)
class SourceOutcome:
    """What a request does, or did, to one file of the clients' records."""

    path: Path
    action: Action
    rows: int
    """Number of rows (images) that go, or that stay in the file though they are deleted."""
    reason: str | None = None
    """Why the file keeps them, or where else they still are."""

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as the ledger and certificates have it: without the file's folder."""
        return {"file": self.path.name, "action": self.action, "rows": self.rows, "reason": self.reason}


def source_plan(
    folder: RunFolder, description: Description, parts: Sequence[PartJson]
) -> list[SourceOutcome]:
    """Return what a request with these parts does to which file; nothing is read or written."""
    found, config = [], folder.config
    images = input_columns(config) if config.model.task == "image" else ()
    for path, numbers in sources(folder, description).items():
        rows = sum(part["count"] for part in parts if part["number"] in numbers)
        if rows and (reason := why_left(folder, path)) is not None:
            found.append(SourceOutcome(path, "left", rows, reason))
        elif rows:
            found.append(SourceOutcome(path, planned_action(path), rows, images_kept(path, images)))
    return found


def erase_rows(
    folder: RunFolder,
    description: Description,
    parts: Sequence[PartJson],
    rows: RowsByFile,
    unreadable: Collection[Path] = (),
) -> list[SourceOutcome]:
    """Take a request's records out of their files, and return what happened to each file.

    `rows` has those that are still there; of `unreadable` files nobody knows. A file that cannot be written
    keeps them and holds up nothing: the ledger is their tombstone.
    """
    found = []
    for planned in source_plan(folder, description, parts):
        if planned.action == "left":
            found.append(planned)
        elif planned.path in unreadable:
            found.append(replace(planned, action="left", reason="it cannot be read: the rows may be in it"))
        else:
            found.extend(_erased(folder, planned, rows.get(planned.path, {})))
    return found


def _erased(folder: RunFolder, planned: SourceOutcome, gone: Collection[str]) -> list[SourceOutcome]:
    try:
        answers = erase_records(planned.path, folder.config.data.id_column, gone)
    except InputError as error:
        return [replace(planned, action="left", reason=str(error))]
    return [
        SourceOutcome(
            planned.path,
            answer.action,
            answer.rows,
            # What was known before holds still, unless the file was left.
            "; ".join(filter(None, (answer.reason, planned.reason if answer.action != "left" else None)))
            or None,
        )
        for answer in answers
    ]


def _deleted_rows(client: Client, erased: DeletedData) -> dict[str, str]:
    kept = {record.id for record in client.retained(erased.slices, erased.records).records}
    return {record.id: client.hash_of(record.id) for record in client.records if record.id not in kept}


def _touched(folder: RunFolder, live: Live) -> dict[Path, set[int]]:
    """Return the files that deleted records were in, with the numbers of the clients that deleted any."""
    if folder.config.data.erase == "tombstone":
        return {}
    erased = live.deleted.keys()
    return {
        path: numbers & erased
        for path, numbers in sources(folder, live.description).items()
        if numbers & erased
    }


def _stamps(folder: RunFolder, live: Live) -> Stamps:
    """Return stamps of each file, which change whenever it is replaced or written."""
    found: Stamps = {}
    for path in sources(folder, live.description):
        try:
            found[path] = stamps_of(path)
        except OSError:
            found[path] = None
    return found
