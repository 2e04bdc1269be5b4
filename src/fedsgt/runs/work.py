"""Work folders: places in a run's folder for records and modules that a command needs until it ends.

A work folder `work/<id>` has a lock, `work/<id>.lock`, which is made before it and removed after it. Every
process that uses the folder holds the lock as long as it lives. So a folder whose lock is free was left by
killed processes, and the next command that opens the run removes it.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from fedsgt.errors import InputError
from fedsgt.files.durable import reported, sync_folder
from fedsgt.files.removal import bury_folder, remove_tree

WORK = "work"
WORK_ID = "[0-9a-f]{16}"
_NAME = re.compile(rf"\.?({WORK_ID})(\.lock)?")


@contextmanager
def work_folder(run: Path, purpose: str, position: int) -> Iterator[Path]:
    """Make a folder that only its owner can read, and remove it at the end, also after an error.

    Its content is chosen at a position of the ledger; a later deletion destroys it at once. For a run that
    cannot be written, the folder is in the system's temporary folder.
    """
    if not os.access(run, os.W_OK):
        path = Path(tempfile.mkdtemp(prefix="fedsgt-"))
        with _done_at_end(remove_tree, path):
            yield path
        return
    path = run / WORK / secrets.token_hex(8)
    if path.parent.is_symlink():
        raise InputError(
            f"{path.parent}: a symbolic link; remove it, as records belong into the run's folder"
        )
    with _new_lock(path, {"purpose": purpose, "position": position}), _done_at_end(_remove, path):
        try:
            with reported("make", path):
                path.mkdir(mode=0o700)
        except FileExistsError:
            raise InputError(f"{run}: a deletion came in meanwhile; start again") from None
        yield path


@contextmanager
def held_work(path: Path) -> Iterator[None]:
    """Hold a work folder that another process made, so that it is in use as long as this process lives."""
    try:
        file = _lock(path).open("rb")
    except FileNotFoundError:  # the folder lies outside of a run, or has just been swept
        yield
        return
    with file:
        fcntl.flock(file, fcntl.LOCK_SH)
        # A program that replaces this one, to remove the folder, holds it too.
        os.set_inheritable(file.fileno(), True)
        yield


def sweep_work(run: Path) -> None:
    """Remove the work folders that killed processes left; those in use stay."""
    for path in work_folders(run):
        _remove_if_free(path)


def destroy_work(path: Path) -> None:
    """Destroy the content of a work folder, also of one in use, whose process then cannot go on."""
    if in_use(path):
        bury_folder(path)
    # The process may have ended meanwhile.
    _remove_if_free(path)


def in_use(path: Path) -> bool:
    """Whether a living process uses the work folder."""
    with _only_user(path) as only:
        return not only


def work_folders(run: Path) -> list[Path]:
    """Return the paths of the work folders, also of those of which only the lock is there."""
    place = run / WORK
    try:
        names = [] if place.is_symlink() else os.listdir(place)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted({place / match[1] for match in map(_NAME.fullmatch, names) if match})


def about_work(path: Path) -> dict[str, Any]:
    """Return what the lock says of its folder: `purpose` and `position`; nothing if it cannot be read."""
    with suppress(OSError, ValueError):
        found = json.loads(_lock(path).read_bytes())
        if isinstance(found, dict):
            return found
    return {}


def _lock(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _new_lock(path: Path, about: dict[str, Any]) -> BinaryIO:
    """Make and hold the lock of a new work folder; closing the file releases it."""
    with reported("make", _lock(path)):
        file = _open_lock(path)
        file.write(json.dumps(about).encode())
        file.flush()
        return file


def _open_lock(path: Path) -> BinaryIO:
    while True:
        with suppress(FileExistsError):
            path.parent.mkdir()
        try:
            file = open(_lock(path), "xb", opener=lambda name, flags: os.open(name, flags, 0o600))  # noqa: SIM115
        except FileNotFoundError:  # another process has just removed the empty folder
            continue
        # Shared, because the processes of one command hold it together.
        fcntl.flock(file, fcntl.LOCK_SH)
        # A sweep elsewhere may have removed the file before it was locked.
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()


@contextmanager
def _only_user(path: Path) -> Iterator[bool]:
    """Hold the folder's lock alone, if no living process uses the folder; tell whether that is so."""
    try:
        file = _lock(path).open("rb")
    except FileNotFoundError:  # its process has ended, as the lock is removed after the folder
        yield True
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _remove_if_free(path: Path) -> None:
    with _only_user(path) as only:
        if only:
            _remove(path)


@contextmanager
def _done_at_end(remove: Callable[[Path], None], path: Path) -> Iterator[None]:
    try:
        yield
    finally:
        try:
            remove(path)
        except BaseException:  # a signal came in the middle of it
            remove(path)
            raise


def _remove(path: Path) -> None:
    """Remove a work folder, or the empty file that a deletion put in its place, and then its lock."""
    remove_tree(path)
    remove_tree(path.with_name(f".{path.name}"))
    _lock(path).unlink(missing_ok=True)
    with suppress(OSError):  # other work folders are there
        path.parent.rmdir()
    sync_folder(path.parent)
    sync_folder(path.parent.parent)
