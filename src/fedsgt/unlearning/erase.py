"""The clients' own data: deleted records leave the source itself, where it is theirs and can be written.

Where it is not, the ledger is the tombstone: whoever loads the clients' data leaves out what it names.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from fedsgt.data import ROW
from fedsgt.data.sources.parquet import rewrite_parquet, training_file
from fedsgt.errors import InputError
from fedsgt.files.encoding import frames
from fedsgt.runs.description import Description
from fedsgt.runs.destruction import Artefact
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.records import load_clients
from fedsgt.runs.state import Live


def sources(folder: RunFolder, description: Description) -> dict[Path, set[int]]:
    """The local files that records of the run are in, and the numbers of the clients whose they are."""
    data = folder.config.data
    own = None if data.partition == "remote" else training_file(data.source)
    found: dict[Path, set[int]] = {}
    for number, client in enumerate(description.clients):
        path = own if client.source is None else Path(client.source).resolve()
        if path is not None:
            found.setdefault(path, set()).add(number)
    return found


def erasable(folder: RunFolder, path: Path) -> bool:
    """Whether deleted rows are taken out of this file: not if it must not, or cannot, be written.

    Simulated clients hold a share of a common data set, which is drawn again from the whole for every build;
    row numbers and `data.limit` depend on the whole likewise.
    """
    data = folder.config.data
    shared = path == training_file(data.source) and (data.partition != "given" or data.limit is not None)
    if data.erase == "tombstone" or data.id_column == ROW or shared:
        return False
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def rows_to_erase(folder: RunFolder, live: Live) -> list[Artefact]:
    """What is to go of which files, as the certificate lists it: by the records' salted hashes."""
    return [
        Artefact("source", "source", hashlib.sha256(frames(*sorted(gone.values()))).hexdigest())
        for gone in _gone(folder, live).values()
    ]


def erase_rows(folder: RunFolder, live: Live) -> None:
    """Take the deleted records out of their files; those that are not there any more are fine."""
    for path, gone in _gone(folder, live).items():
        rewrite_parquet(path, folder.config.data.id_column, gone)


def out_of_reach(folder: RunFolder, live: Live) -> list[Path]:
    """Files that deleted records were in, and that nobody can look into: moved, perhaps, or damaged."""
    found = []
    for path, numbers in sources(folder, live.description).items():
        touched = numbers & live.erased().keys()
        if touched and folder.config.data.erase != "tombstone":
            try:
                load_clients(folder.config, live.description, only=touched)
            except InputError:
                found.append(path)
    return found


def _gone(folder: RunFolder, live: Live) -> dict[Path, dict[str, str]]:
    """By file: the ids that are there and were deleted, with their salted hashes."""
    found: dict[Path, dict[str, str]] = {}
    for path, numbers in sources(folder, live.description).items():
        touched = numbers & live.erased().keys()
        if touched and erasable(folder, path):
            gone = _gone_of(folder, live, touched)
            if gone:
                found[path] = gone
    return found


def _gone_of(folder: RunFolder, live: Live, numbers: set[int]) -> dict[str, str]:
    """Of a file that cannot be read nothing can be taken out: there the ledger is the tombstone."""
    try:
        clients = load_clients(folder.config, live.description, only=numbers).local
    except InputError:
        return {}
    found = {}
    for number in numbers:
        client, erased = clients[number], live.erased()[number]
        kept = {record.id for record in client.retained(erased.slices, erased.records).records}
        found.update({r.id: client.hash_of(r.id) for r in client.records if r.id not in kept})
    return found
