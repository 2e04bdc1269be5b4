"""Locks that go with their process, however that ends."""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from fedsgt.errors import InputError


class Busy(InputError):
    """Somebody else holds what only one may."""


class FileLock:
    """One holder among all processes and threads; who holds it may take it again."""

    def __init__(self, path: Path) -> None:
        self.path, self.depth = path, 0
        self.inside = threading.RLock()

    @contextmanager
    def held(self) -> Iterator[None]:
        with self.inside, ExitStack() as opened:
            if not self.depth:
                file = opened.enter_context(self.path.open("a+"))
                fcntl.flock(file, fcntl.LOCK_EX)
            self.depth += 1
            opened.callback(self._leave)
            yield

    def _leave(self) -> None:
        self.depth -= 1


@contextmanager
def only_holder(file: Path, run: Path) -> Iterator[None]:
    """The lock goes with its process, however that ends."""
    with file.open("a+") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(f"{run}: another process is working on this run; wait for it") from None
        yield
