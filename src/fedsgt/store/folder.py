"""Objects as files of a local folder: a write or a deletion that has returned survives a power cut."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fedsgt.files.durable import sync_folder
from fedsgt.store.names import check_name, check_prefix, is_name, reported

# A file that is being written: its name says which object it is to become.
_UNFINISHED = re.compile(r"\.[0-9a-f]{16}\.(.+)")


@dataclass(frozen=True)
class Folder:
    """The objects under one folder, which is made by the first write."""

    root: Path

    def __post_init__(self) -> None:
        # Worker processes may stand in another working directory.
        object.__setattr__(self, "root", Path(self.root).absolute())

    def path(self, name: str) -> Path:
        """Where the object lies, or would lie."""
        check_name(name)
        return self.root / name

    def read(self, name: str) -> bytes:
        """The object's bytes; `KeyError` if there is no such object."""
        path = self.path(name)
        with reported("read", path):
            try:
                return path.read_bytes()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                raise KeyError(name) from None

    def write(self, name: str, data: bytes) -> None:
        """Makes or replaces the object: a reader, also one after a crash, sees the old or the new bytes."""
        path = self.path(name)
        with reported("write", path):
            unfinished, file = _open_beside(path)
            with file:
                _finish(file, data, unfinished, path)
            self._sync_upwards(path.parent)

    def delete(self, name: str) -> None:
        """Removes the object and the folders that it leaves empty; one that is not there is fine."""
        path = self.path(name)
        with reported("delete", path):
            with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
                os.unlink(path)
            self._prune(path.parent)

    def names(self, prefix: str = "") -> list[str]:
        """All objects whose name starts so, in order."""
        check_prefix(prefix)
        with reported("list", self.root):
            found = (path.relative_to(self.root).as_posix() for path in self._files(prefix))
            return sorted(name for name in found if name.startswith(prefix) and is_name(name))

    def sweep(self, prefix: str = "") -> None:
        """Removes what killed writers of such objects left behind; writers at work are not disturbed."""
        check_prefix(prefix)
        with reported("clean up", self.root):
            for path in list(self._files(prefix)):
                match = _UNFINISHED.fullmatch(path.name)
                if match is None:
                    continue
                name = path.with_name(match[1]).relative_to(self.root).as_posix()
                if name.startswith(prefix) and _remove_abandoned(path):
                    self._prune(path.parent)

    def _files(self, prefix: str) -> Iterator[Path]:
        start = self.root / prefix.rpartition("/")[0]
        for folder, _, files in os.walk(start, onerror=_unless_gone):
            yield from (Path(folder, file) for file in files)

    def _sync_upwards(self, folder: Path) -> None:
        # Up to the root, not only folders made here: who made the others may not have synced them yet.
        for place in (folder, *folder.parents):
            sync_folder(place)
            if place == self.root:
                return

    def _prune(self, folder: Path) -> None:
        while folder != self.root and _remove_if_empty(folder):
            folder = folder.parent
        # What was removed below is gone for good once the folder that is still there says so.
        sync_folder(folder)


def _open_beside(path: Path, attempts: int = 100) -> tuple[Path, BinaryIO]:
    """A new file in the same folder, locked for as long as its writer lives."""
    unfinished = path.with_name(f".{secrets.token_hex(8)}.{path.name}")
    try:
        _make_folder(path.parent)
        file = open(unfinished, "xb")  # noqa: SIM115
    except FileNotFoundError:
        if not attempts:
            raise
        # A deletion elsewhere removed the folder while it was still empty.
        return _open_beside(path, attempts - 1)
    fcntl.flock(file, fcntl.LOCK_EX)
    if os.fstat(file.fileno()).st_nlink:
        return unfinished, file
    # A sweep elsewhere was faster than the lock.
    file.close()
    return _open_beside(path)


def _finish(file: BinaryIO, data: bytes, unfinished: Path, path: Path) -> None:
    try:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(unfinished)
        raise


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        _make_folder(folder.parent)
        with suppress(FileExistsError):
            os.mkdir(folder)
        sync_folder(folder.parent)


def _remove_if_empty(folder: Path) -> bool:
    """Whether there is no such folder now."""
    try:
        os.rmdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True


def _remove_abandoned(unfinished: Path) -> bool:
    """Only a dead writer's file can be locked."""
    try:
        with open(unfinished, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(unfinished)
    except (FileNotFoundError, BlockingIOError):
        return False
    return True


def _unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error
