"""The clients' own data: deleted records leave the source itself, where it is theirs and can be written.

Where it is not, the ledger is the tombstone: whoever loads the clients' data leaves out what it names.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from fedsgt.build.holders import load_holdings
from fedsgt.build.liveness import Live
from fedsgt.build.run import RunFolder
from fedsgt.data.encoding import frames
from fedsgt.data.parquet import rewrite_parquet, training_file
from fedsgt.data.table import ROW
from fedsgt.unlearning.destroy import Artefact


def erasable(folder: RunFolder) -> Path | None:
    """The file of which deleted rows are taken out; none if it must not, or cannot, be written.

    Simulated clients hold a share of a common data set, which is drawn again from the whole for every build;
    row numbers and `data.limit` depend on the whole likewise.
    """
    data = folder.config.data
    if (
        data.erase == "tombstone"
        or data.partition != "given"
        or data.id_column == ROW
        or data.limit is not None
    ):
        return None
    path = training_file(data.source)
    return path if path is not None and os.access(path, os.W_OK) and os.access(path.parent, os.W_OK) else None


def rows_to_erase(folder: RunFolder, live: Live) -> list[Artefact]:
    """What is to go of which files, as the certificate lists it: by the records' salted hashes."""
    return [
        Artefact(path.name, "source", hashlib.sha256(frames(*sorted(gone.values()))).hexdigest())
        for path, gone in _gone(folder, live).items()
    ]


def erase_rows(folder: RunFolder, live: Live) -> None:
    """Take the deleted records out of their files; those that are not there any more are fine."""
    for path, gone in _gone(folder, live).items():
        rewrite_parquet(path, folder.config.data.id_column, gone)


def _gone(folder: RunFolder, live: Live) -> dict[Path, dict[str, str]]:
    """By file: the ids that are there and were deleted, with their salted hashes."""
    sources = _sources(folder, live)
    if not sources:
        return {}
    whole = load_holdings(folder.config, live.description)
    left = whole.without(live.erased())
    found: dict[Path, dict[str, str]] = {}
    for path, names in sources.items():
        for before, after in zip(whole.clients, left.clients, strict=True):
            kept = {record.id for record in after.records}
            gone = [record.id for record in before.records if record.id not in kept]
            if before.name in names and gone:
                found.setdefault(path, {}).update({name: before.hash_of(name) for name in gone})
    return found


def _sources(folder: RunFolder, live: Live) -> dict[Path, set[str]]:
    """The files to write, and the clients whose records are there."""
    clients = live.description.clients
    own = erasable(folder)
    found = {own: {client.name for client in clients if client.source is None}} if own else {}
    for client in clients:
        if client.source is not None and folder.config.data.erase != "tombstone":
            path = Path(client.source)
            if os.access(path, os.W_OK):
                found[path] = {client.name}
    return found
