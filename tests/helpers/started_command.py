"""A `fedsgt` command in a process of its own, which tests stop and kill, and what it leaves on disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

PATIENCE = 120.0  # seconds until a test fails that waits for a process


def wait_until(done: Callable[[], object]) -> None:
    """Look again and again until this is so."""
    until = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.002)


def files_with(places: Iterable[Path], texts: Iterable[bytes | str]) -> list[Path]:
    """Return the files in these folders whose bytes contain any of these."""
    wanted = [text.encode() if isinstance(text, str) else text for text in texts]
    found: list[Path] = []
    for place in places:
        for path in place.rglob("*"):
            with suppress(FileNotFoundError, NotADirectoryError):
                data = path.read_bytes() if path.is_file() else b""
                found += [path] * any(text in data for text in wanted)
    return found


class StartedCommand:
    """The command, with a folder for temporary files of its own; ended with all its processes at the end."""

    def __init__(self, temporary: Path, *arguments: object) -> None:
        temporary.mkdir()
        self.temporary, self.children = temporary, set[int]()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fedsgt", *map(str, arguments)],
            env=os.environ | {"TMPDIR": str(temporary)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.kill_all()
        self.process.communicate()

    def child(self) -> int:
        """Wait for the process that it starts, and return its id."""
        file = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        wait_until(lambda: file.read_text().split())
        found = int(file.read_text().split()[0])
        self.children.add(found)
        return found

    def kill_all(self) -> None:
        """Kill the command, the process that it started, and the workers of both, and wait for their end."""
        for group in (self.process.pid, *self.children):
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        self.process.wait()
        wait_until(lambda: all(map(is_gone, self.children)))

    def end(self) -> tuple[int, str]:
        """Wait for the end of the command; return its exit code and what it wrote as errors."""
        _, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, errors


def is_gone(process: int) -> bool:
    """Whether the process has ended with all its threads, and so holds no lock any more."""
    place = Path(f"/proc/{process}")
    try:
        # A process whose parent does not ask for its exit code stays listed after its end.
        ended = (place / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
        return ended and len(os.listdir(place / "task")) == 1
    except (FileNotFoundError, ProcessLookupError):
        return True
