"""A deliberate copy of a run: a run of its own, with an id of its own."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedsgt.config import to_toml
from fedsgt.errors import InputError
from fedsgt.files.durable import make_folder, write_once
from fedsgt.ledger.kinds import Kind
from fedsgt.runs.artefacts import (
    BARE_FEATURES,
    CONFIG,
    DESCRIPTION,
    EVALUATION,
    KEPT_RECORDS,
    KEPT_TEST,
    MANIFEST,
    MODULE,
    PREDICTIONS,
    REGISTERS,
    STATISTIC,
    claimed_files,
)
from fedsgt.runs.dependencies import Dead
from fedsgt.runs.destruction import check_links
from fedsgt.runs.folder import RunFolder, appear_whole, ledger_url, open_run
from fedsgt.runs.kept_records import RECORDS, split_rows, unlocated
from fedsgt.runs.state import Live
from fedsgt.store import Folder


def copy_run(folder: RunFolder, path: Path) -> RunFolder:
    """Copy what is live of a run into a new folder, which appears with all its files, or not at all.

    Certificates, keys, caches, exports and reports stay with the original. A deletion in one of the two runs
    does not reach the other.
    """
    if path.exists():
        raise InputError(f"{path}: already there; a copy needs a new folder; nothing was changed")
    if any((above / DESCRIPTION).is_file() for above in path.absolute().parents):
        raise InputError(f"{path}: inside of a run's folder, where no deletion finds it; give another place")
    check_links(folder)
    with _held_still(folder) as live, appear_whole(path) as temporary:
        _fill(folder, live, temporary)
    return open_run(path)


@contextmanager
def _held_still(folder: RunFolder) -> Iterator[Live]:
    """Keep deletions from destroying files meanwhile; nobody can destroy any in a folder of no writer."""
    if folder.writable:
        with folder.publishing() as live:
            yield live
    else:
        yield folder.live()


def _fill(folder: RunFolder, live: Live, temporary: Path) -> None:
    named = live.description.model_copy(update={"id": secrets.token_hex(16)})
    # Modules are copied into the folder: in a store that both share, a deletion would reach the other run.
    config = folder.config.model_copy(update={"store": folder.config.store.model_copy(update={"url": None})})
    files = Folder(temporary)
    files.write(CONFIG, to_toml(unlocated(config)).encode())
    files.write(DESCRIPTION, named.to_text().encode())
    _copy_registers(folder.path / REGISTERS, temporary / REGISTERS)
    if (folder.path / RECORDS).is_dir():
        make_folder(temporary / RECORDS, 0o700)
    for name, data in _live_files(folder, live):
        files.write(name, data)
    last = folder.ledger.entries(after=live.position - 1)[0]
    origin = {"run": folder.description.id, "position": last.position, "hash": last.hash}
    rebuilt = {"description": named.hash(), "as_of": named.as_of}
    folder.ledger.copy(
        ledger_url(temporary, config),
        named.id,
        live.position,
        [(Kind.COPIED, origin), (Kind.REBUILT, rebuilt)],
    ).close()


def _copy_registers(old: Path, new: Path) -> None:
    """Copy the registers of clients; only their owner can read them."""
    for register in sorted(old.glob("*.json")):
        make_folder(new, 0o700)
        write_once(new / register.name, register.read_bytes(), mode=0o600)


def _live_files(folder: RunFolder, live: Live) -> Iterator[tuple[str, bytes]]:
    """List the files of live modules, kept records, and the evaluation if it is of live modules only."""
    dead = Dead.at(live)
    keys = {entry.key for entry in live.modules()}
    for kind, file in claimed_files(folder):
        if not file.plain:
            continue
        if kind is KEPT_RECORDS:
            # Without deleted records, also if their deletion is not completed yet in the original.
            left, _ = split_rows(file.read(), dead.records, dead.is_client)
            if left is not None:
                yield file.name, left
            continue
        if dead.reaches(kind.made_of(file)):
            continue
        # A store that several runs share has modules of others, which are not dead here, but unknown.
        of_module = kind in (MANIFEST, MODULE, PREDICTIONS) and file.parts[1] in keys
        if of_module or kind in (KEPT_TEST, STATISTIC, BARE_FEATURES) or file.name == EVALUATION:
            yield file.name, file.read()
