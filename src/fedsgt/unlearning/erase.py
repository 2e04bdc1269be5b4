"""Erasure of deleted records from the files that the clients' records are in.

Files that must not be written, or cannot be, keep them: there the ledger is the tombstone, and everybody
who loads the clients' records leaves out what it names.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

from fedsgt.data import ROW, Client
from fedsgt.data.sources.parquet import rewrite_parquet, training_file
from fedsgt.errors import InputError
from fedsgt.files.encoding import frames
from fedsgt.runs.description import Description
from fedsgt.runs.destruction import Artefact
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.records import ClientData, load_clients
from fedsgt.runs.state import DeletedData, Live

RowsByFile: TypeAlias = dict[Path, dict[str, str]]
Stamps: TypeAlias = dict[Path, tuple[int, int, int] | None]


def sources(folder: RunFolder, description: Description) -> dict[Path, set[int]]:
    """Return the local files that the run's records are in, each with the numbers of its clients."""
    data = folder.config.data
    own = None if data.partition == "remote" else training_file(data.source)
    found: dict[Path, set[int]] = {}
    for number, client in enumerate(description.clients):
        path = own if client.source is None else Path(client.source).resolve()
        if path is not None:
            found.setdefault(path, set()).add(number)
    return found


def erasable(folder: RunFolder, path: Path) -> bool:
    """Whether deleted rows are taken out of this file: not if it must not be written, or cannot be."""
    # Simulated clients get shares of a common data set, dealt anew from the whole for every build; row
    # numbers and `data.limit` depend on the whole likewise.
    data = folder.config.data
    shared = path == training_file(data.source) and (data.partition != "given" or data.limit is not None)
    if data.erase == "tombstone" or data.id_column == ROW or shared:
        return False
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


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
            self._keep(live, numbers, load_clients(self.folder.config, live.description, only=numbers))
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
        if erasable(folder, path):
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
    """Return the rows that leave each file as certificates list them: hashed, and without the file's name."""
    return [
        Artefact("source", "source", hashlib.sha256(frames(*sorted(gone.values()))).hexdigest())
        for gone in rows.values()
    ]


def erase_rows(folder: RunFolder, rows: RowsByFile) -> list[dict[str, Any]]:
    """Take the records out of their files, and return what was done to each; those gone already are fine."""
    for path, gone in rows.items():
        rewrite_parquet(path, folder.config.data.id_column, gone)
    return [
        {"file": path.name, "action": "rewritten", "rows": len(gone), "reason": None}
        for path, gone in rows.items()
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
    """Return a stamp of each file, which changes whenever the file is replaced or written."""
    found: Stamps = {}
    for path in sources(folder, live.description):
        try:
            status = path.stat()
            found[path] = status.st_ino, status.st_mtime_ns, status.st_size
        except OSError:
            found[path] = None
    return found
