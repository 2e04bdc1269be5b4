"""Where work that needs torch is done: in this process, or in a helper process with the execution profile.

A notebook may have imported torch before, with other threads and kernels than modules are made with, and its
settings of torch are its own. So such a process hands the work over, and only plain values travel.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from threading import RLock
from typing import IO, Any, TypeAlias

from fedsgt.engine.pool import Failure
from fedsgt.errors import InputError
from fedsgt.stack import profile

Tell: TypeAlias = Callable[[Any], None]
"""Function that is told events or shares of the work."""
State: TypeAlias = dict[str, Any]
"""Things that tasks of one session keep for later ones, such as an open model."""
# -P: a file in the working directory must not stand in for a library.
COMMAND = (sys.executable, "-P", "-m", "fedsgt.api.helper")


class Session:
    """Carries out tasks one at a time: functions of `fedsgt.api.tasks`, which may use torch."""

    def __init__(self) -> None:
        self.state: State = {}
        self.helper: Helper | None = None
        # Threads may share a run, and a helper answers one question at a time.
        self.lock = RLock()

    def call(self, task: Callable[..., Any], *arguments: Any, tell: Tell = lambda event: None) -> Any:
        """Call the task with these arguments where the execution profile is in force."""
        check_torch()
        with self.lock:
            if profile.in_time():
                return task(self.state, *arguments, tell=tell)
            if self.helper is None or self.helper.owner != os.getpid():  # a fork shares its parent's socket
                self.helper = Helper()
            if not self.helper.idle:
                raise InputError(
                    "this run is at work, and a function that is told its progress asked it for more; open "
                    "the run once more for that"
                )
            try:
                return self.helper.call(task, arguments, tell)
            except BaseException:
                # An error may have come between a question and its answer, so that later answers would be
                # taken for those of other questions.
                if not self.helper.idle:
                    self.close()
                raise

    def tell_all(self, task: Callable[..., Any]) -> None:
        """Call a task wherever this session has kept something; what cannot do it is ended."""
        with self.lock:
            try:
                task(self.state, tell=lambda event: None)
                if self.helper is not None and self.helper.owner == os.getpid():
                    if not self.helper.idle:
                        raise InputError("it is at work")
                    self.helper.call(task, (), lambda event: None)
            except Exception:  # whatever went wrong there, nobody here has to know
                self.close()

    def close(self) -> None:
        """End the helper process, if there is one."""
        with self.lock:
            if self.helper is not None:
                self.helper.end()
            self.helper = None
            self.state.clear()


class Helper:
    """A process of its own that does tasks under the execution profile."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        # Not a pipe: nobody would read it, and a full one would stop the process.
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        with theirs:
            self.process = subprocess.Popen(
                (*COMMAND, str(theirs.fileno())),
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self.errors,
                env=os.environ | profile.environment(),
                start_new_session=True,  # Ctrl-C is for this process to deal with
            )
        self.connection = Connection(ours.detach())
        self.owner = os.getpid()
        """Process that started this one, and the only one that may ask it."""
        self.idle = True
        """Whether no answer is outstanding."""

    def call(self, task: Callable[..., Any], arguments: tuple[Any, ...], tell: Tell) -> Any:
        """Return the task's result; raise its error. Events are told as they come."""
        try:
            self.idle = False
            self.connection.send((task, arguments))
            while True:
                kind, value = self.connection.recv()
                if kind == "event":
                    tell(value)
                    continue
                self.idle = True
                if isinstance(value, Failure):
                    raise value.error()
                return value
        except (EOFError, OSError) as error:
            if self.idle:  # the task's own error
                raise
            raise InputError(self._died()) from error

    def end(self) -> None:
        """End the process, whatever it does; its own workers end with it."""
        if self.owner != os.getpid():
            return
        self.connection.close()
        self.process.terminate()
        self.process.wait()
        self.errors.close()

    def _died(self) -> str:
        code = self.process.wait()
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
        return (
            f"the process that has the execution profile ended by itself (exit code {code}; -9 is often too "
            f"little memory): {last}; finished modules are kept, and the same call goes on after them"
        )

    def __del__(self) -> None:
        # A forgotten session must not leave a process that holds a model.
        if hasattr(self, "connection") and not self.connection.closed:
            self.end()


def has_torch() -> bool:
    """Whether torch is installed; it is looked for and not imported, which would fix its settings."""
    return importlib.util.find_spec("torch") is not None


def check_torch() -> None:
    """Raise if torch is not installed."""
    if not has_torch():
        raise InputError("this needs torch and transformers: pip install 'fedsgt[train]'")
