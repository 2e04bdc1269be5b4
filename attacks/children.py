"""Child processes that are forked with everything imported, and killed at a chosen step or time.

Nothing in the process that forks may open a run: an open ledger must not cross a fork.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from attacks import world
from fedsgt.engine import worker
from fedsgt.errors import InputError

from kill_at_step import FILES, KillAtStep  # isort: skip  (found once `attacks.world` is imported)
from sqlalchemy import event  # isort: skip
from sqlalchemy.engine import Engine  # isort: skip

assert world
Tell = Callable[[Any], None]
# Far longer than any of these operations takes on a busy machine.
PATIENCE = 180.0
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


@dataclass(frozen=True)
class Kill:
    """When to kill a child: at its step of this number, or after this many seconds."""

    step: int | None = None
    seconds: float | None = None

    def __str__(self) -> str:
        return f"at step {self.step}" if self.seconds is None else f"after {self.seconds:.4f} s"


@dataclass
class Outcome:
    """Outcome of a child process."""

    value: Any = None
    error: str | None = None
    """Message of an `InputError`."""
    crash: str | None = None
    """Traceback of any other exception, or that it hangs."""
    killed: bool = False
    told: list[Any] = field(default_factory=list)
    """Values that it told before its end."""
    seconds: float = 0.0
    steps: int = 0

    @property
    def trouble(self) -> str | None:
        """Error or crash in one line."""
        return self.error or (None if self.crash is None else self.crash.strip().splitlines()[-1])


class Child:
    """A forked process that carries out one function; `tell` is its last argument if it is wanted."""

    def __init__(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        kill: Kill | None = None,
        patience: float = PATIENCE,
        watched: bool = True,
    ) -> None:
        self.kill, self.patience, self.begun, self.outcome = kill, patience, time.monotonic(), Outcome()
        self.ends, theirs = Pipe(duplex=False)
        self.pid = os.fork()
        if not self.pid:
            self.ends.close()
            _serve(theirs, function, arguments, kill.step if kill else None, watched)
        theirs.close()

    def wait(self) -> Outcome:
        """Wait for its end, kill it when its time has come, and return what became of it."""
        planned = self.kill is not None and self.kill.seconds is not None
        limit = self.kill.seconds if self.kill and self.kill.seconds is not None else self.patience
        with suppress(EOFError, ConnectionResetError):
            while True:
                if not self.ends.poll(max(0.0, self.begun + limit - time.monotonic())):
                    self.end()
                    if not planned:
                        self.outcome.crash = f"it did not end within {limit:.0f} s"
                self._take(*self.ends.recv())
        _, status = os.waitpid(self.pid, 0)
        self.ends.close()
        done, self.outcome.seconds = self.outcome, time.monotonic() - self.begun
        done.killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        if not done.killed and status and done.crash is None:
            done.crash = f"it ended with status {status}"
        return done

    def _take(self, what: str, value: Any) -> None:
        if what == "told":
            self.outcome.told.append(value)
        else:
            setattr(self.outcome, what, value)

    def end(self) -> None:
        """End it now."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


def run(function: Callable[..., Any], *arguments: Any, kill: Kill | None = None) -> Outcome:
    """Carry out a function in a child process."""
    return Child(function, *arguments, kill=kill).wait()


def _serve(
    connection: Connection,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    step: int | None,
    watched: bool,
) -> None:
    """Carry out the function, send what comes of it, and end without any cleaning up of the parent's."""
    try:
        with suppress(OSError, AttributeError):  # elsewhere than on Linux
            ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        quiet = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(quiet, number)
        tempfile.tempdir = None  # the parent's may be another
        steps = _watched(step) if watched else KillAtStep(None)
        try:
            connection.send(("value", function(*arguments, lambda what: connection.send(("told", what)))))
        except InputError as error:
            connection.send(("error", str(error)))
        connection.send(("steps", steps.taken))
    except BaseException:
        connection.send(("crash", traceback.format_exc()))
    finally:
        os._exit(0)


def _watched(step: int | None) -> KillAtStep:
    """Count the calls of the file system, of the ledger and of clients' updates; be killed at one of them."""
    steps = KillAtStep(step)
    steps.watch(os, *FILES, "link", after=True)
    steps.watch(fcntl, "flock", after=True)
    steps.watch(shutil, "rmtree", after=True)
    steps.watch(worker, "local_update")
    for name in ("commit", "begin", "after_cursor_execute"):
        event.listen(Engine, name, steps.tick)
    return steps
