"""Locks on files. The operating system releases them with their process, however that ends."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from fedsgt.errors import InputError


class Busy(InputError):
    """Another process holds a lock that is not waited for."""


class FileLock:
    """Lock for one thread of one process at a time; the thread that holds it may take it again."""

    def __init__(self, path: Path) -> None:
        self.path, self.depth = path, 0
        # The file's lock is the process's: it does not keep two of its threads apart.
        self.inside = threading.RLock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait for the lock, then hold it."""
        with self.inside, ExitStack() as opened:
            # Opened and locked once only: a second open file of the same process would wait for the first.
            if not self.depth:
                _lock(self.path, opened)
            self.depth += 1
            opened.callback(self._leave)
            yield

    def _leave(self) -> None:
        self.depth -= 1


def _lock(path: Path, opened: ExitStack) -> None:
    """Wait for the lock on a file. One that can only be read is shared: writers wait for its readers."""
    try:
        fcntl.flock(opened.enter_context(path.open("a+")), fcntl.LOCK_EX)
        return
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
    # Whoever cannot open it at all, as it was never made in a copy, holds off nobody and can write nothing.
    with suppress(FileNotFoundError, PermissionError):
        fcntl.flock(opened.enter_context(path.open("rb")), fcntl.LOCK_SH)


@contextmanager
def only_holder(file: Path, run: Path) -> Iterator[None]:
    """Hold the lock on `file`; raise `Busy`, naming the run, if another process holds it."""
    with file.open("a+") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(f"{run}: another process is working on this run; wait for it") from None
        yield


@contextmanager
def held_in_place(path: Path) -> Iterator[BinaryIO]:
    """Wait for the lock on a file that its holders replace, and hold it; no file is made beside it."""
    while True:
        # Opened for writing too, without which NFS gives no exclusive lock.
        with path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # Whoever held the lock before may have put another file in its place.
            if leads_to(path, file):
                yield file
                return


def leads_to(path: Path, file: BinaryIO) -> bool:
    """Whether the path leads to this open file."""
    return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
