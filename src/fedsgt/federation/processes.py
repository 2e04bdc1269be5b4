"""Child processes that end with their parent, however that ends, and their logs."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

from fedsgt.errors import InputError
from fedsgt.files.optional import check_flower

PR_SET_PDEATHSIG = 1
STOP_SECONDS = 8.0  # seconds; Flower's processes force themselves to end after five
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "PYTHONUNBUFFERED": "1",
}
# Seconds: pauses before a restart, and the age from which a process counts as having worked.
FIRST_PAUSE, LONGEST_PAUSE, LASTING = 0.5, 15.0, 60.0
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Child:
    """A child process with its log; the log of the process before is kept beside it."""

    def __init__(self, arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self.log = log
        if log.exists():
            # The log before says why the last process ended, and only that one is worth the space.
            log.replace(log.with_name(f"{log.name}.1"))
        launcher = [sys.executable, "-m", "fedsgt.federation.processes", str(os.getpid())]
        with log.open("wb") as output:
            # The child has a session of its own, so that Ctrl-C reaches only this process, which then ends
            # its children.
            self.process = subprocess.Popen(
                [*launcher, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def last_words(self) -> str:
        """Return the reason of the process's end in one line: a signal, or the last line of its log."""
        code = self.process.poll()
        if code is not None and code < 0:
            return signal.Signals(-code).name
        text = _COLOURS.sub("", self.log.read_text(encoding="utf-8", errors="replace"))
        lines = [line.strip() for line in text.splitlines()]
        told = [line for line in lines if line and not line.startswith("For more information")]
        return told[-1] if told else f"exit code {code}"

    def stop(self, patience: float = STOP_SECONDS) -> None:
        """End the process, by force after `patience` seconds."""
        # The first signal is not a kill: a SuperNode signs off then, and may connect again at once.
        if not self.ended:
            self.process.terminate()
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class RestartedChild:
    """A child that is started again when it ends, after a pause that grows while it soon ends again."""

    def __init__(self, start: Callable[[], Child], ended: Callable[[Child], None]) -> None:
        self.start, self.ended = start, ended
        self.child: Child | None = None
        self.pause, self.due, self.born = FIRST_PAUSE, 0.0, 0.0

    def tend(self) -> bool:
        """Start the child if that is due, and return whether it was; call this again and again."""
        now = time.monotonic()
        if self.child is not None and self.child.ended and not self.due:
            self.pause = FIRST_PAUSE if now - self.born > LASTING else min(2 * self.pause, LONGEST_PAUSE)
            self.due = now + self.pause
            self.ended(self.child)
        wanted = self.child is None or (self.child.ended and now >= self.due)
        if wanted:
            self.child, self.born, self.due = self.start(), now, 0.0
        return wanted

    def stop(self) -> None:
        """End the child; the next `tend` starts a new one."""
        if self.child is not None:
            self.child.stop()
        self.child = None


@contextmanager
def only_one(folder: Path, party: str) -> Iterator[None]:
    """Refuse a second server, or client, on the same folder."""
    # Imported here, since the launcher below must start fast.
    from fedsgt.files.locks import Busy, only_holder

    with ExitStack() as held:
        try:
            held.enter_context(only_holder(folder / f"{party}.lock", folder))
        except Busy:
            raise InputError(f"{folder}: a {party} is running on this folder already; end it first") from None
        yield


def flower_command(name: str) -> str:
    """Return the path of a Flower command that belongs to this Python, whatever PATH says."""
    check_flower()
    return str(Path(sys.executable).with_name(name))


def flower_environment(home: Path) -> dict[str, str]:
    """Return the environment of Flower's processes: own settings, no reports, no downloads."""
    own = str(Path(sys.executable).parent)  # Flower's processes start one another by name
    path = os.pathsep.join([own, os.environ.get("PATH", os.defpath)])
    return {**os.environ, **QUIET, "FLWR_HOME": str(home), "PATH": path}


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """Turn SIGTERM and Ctrl-C into an event, so that this process can end its children first."""
    stop = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _become(parent: int, arguments: list[str]) -> None:
    """Turn this process into the command, which the system ends as soon as the parent is gone."""
    # Flower relies on SIGINT, which a shell's background jobs ignore.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        # The parent may have ended before the line above, which then has no effect.
        if os.getppid() != parent:
            sys.exit("the parent process is gone")
    os.execv(arguments[0], arguments)


if __name__ == "__main__":
    _become(int(sys.argv[1]), sys.argv[2:])
