"""Writes and deletions that survive a power cut, and that no reader ever sees half done.

New bytes go to an unfinished file, whose dotted name no reader takes for the real one, and get their real
name once they are on disk. The writer locks its unfinished file for as long as it lives, so that a sweep can
tell the remains of a killed process from work in progress.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from fedsgt.errors import InputError

_UNFINISHED = re.compile(r"\.[0-9a-f]{16}\.(.+)")
# Each attempt can fail only if another process removes the same empty folder at the same moment.
_ATTEMPTS = 100


def sync_folder(folder: Path) -> None:
    """Make the names that were added to the folder, or removed from it, survive a power cut."""
    # If the folder itself is gone, its remover syncs the folder above.
    with suppress(FileNotFoundError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def reported(action: str, path: Path) -> Iterator[None]:
    """Turn an error of the operating system into one line; `FileExistsError` is for the caller."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise InputError(f"{path}: cannot {action} it ({error.strerror or error})") from None


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Make the folder and the missing ones above it; `mode` is for the last of them."""
    if not folder.is_dir():
        make_folder(folder.parent)
        with suppress(FileExistsError):
            os.mkdir(folder, mode)
        # A file in a folder whose own name is not on disk is lost with the folder.
        sync_folder(folder.parent)


def read_limited(path: Path, limit: int, private: bool = False) -> bytes:
    """Return the file's bytes; refuse more than `limit`, and a private file that others can read."""
    with reported("read", path), open(path, "rb") as file:
        # The mode of the open file: the name may lead to another file a moment later.
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        if private and mode & 0o077:
            raise InputError(
                f"{path}: mode {mode:o} lets others at the key; run chmod 600 {shlex.quote(str(path))}"
            )
        # One byte more than allowed tells a file that is too large, also one without an end such as a device.
        data = file.read(limit + 1)
    if len(data) > limit:
        raise InputError(f"{path}: larger than {limit} bytes, the most that is read here")
    return data


def write_once(path: Path, data: bytes, mode: int) -> None:
    """Make a file, whole and on disk, or not at all; `FileExistsError` if there is one of this name."""
    with reported("write", path):
        unfinished, file = _open_unfinished(path, mode)
        try:
            with file:
                _write_synced(file, data)
                # Unlike a rename, a link never replaces what another process has made meanwhile.
                os.link(unfinished, path)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(unfinished)
        sync_folder(path.parent)


def replace_file(path: Path, data: bytes) -> None:
    """Make or replace the file and the folders above it; the caller syncs the folders."""
    unfinished, file = _open_in_new_folder(path)
    with file:
        try:
            _write_synced(file, data)
            os.replace(unfinished, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(unfinished)
            raise


@contextmanager
def unfinished_file(path: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """Open a new private unfinished file beside `path`; it is removed at the end unless it was renamed."""
    unfinished, file = _open_unfinished(path, 0o600)
    with file:
        try:
            yield unfinished, file
        finally:
            # Before the lock goes: a sweep could not tell it from another's.
            with suppress(FileNotFoundError):
                os.unlink(unfinished)


def finished_path(path: Path) -> Path | None:
    """Return the path that an unfinished file was to get; None if this is no unfinished file."""
    match = _UNFINISHED.fullmatch(path.name)
    return path.with_name(match[1]) if match else None


def remove_abandoned(unfinished: Path) -> bool:
    """Remove the unfinished file of a killed writer; False if its writer is alive or the file is gone."""
    try:
        with open(unfinished, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(unfinished)
    except (FileNotFoundError, BlockingIOError):
        return False
    return True


def _open_in_new_folder(path: Path) -> tuple[Path, BinaryIO]:
    """Open an unfinished file, in a folder that is made if missing."""
    for _ in range(_ATTEMPTS):
        # A deletion elsewhere may remove a new folder while it is still empty.
        with suppress(FileNotFoundError):
            make_folder(path.parent)
            return _open_unfinished(path)
    make_folder(path.parent)
    return _open_unfinished(path)


def _open_unfinished(path: Path, mode: int = 0o666) -> tuple[Path, BinaryIO]:
    """Open and lock a new unfinished file beside `path`."""
    while True:
        unfinished = path.with_name(f".{secrets.token_hex(8)}.{path.name}")
        # The mode is set at creation: a private key must not be readable for a moment either.
        file = open(unfinished, "x+b", opener=lambda name, flags: os.open(name, flags, mode))  # noqa: SIM115
        fcntl.flock(file, fcntl.LOCK_EX)
        # A sweep elsewhere may have removed the file before it was locked.
        if os.fstat(file.fileno()).st_nlink:
            return unfinished, file
        file.close()


def _write_synced(file: BinaryIO, data: bytes) -> None:
    file.write(data)
    file.flush()
    os.fsync(file.fileno())
