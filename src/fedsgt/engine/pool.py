"""Pools of workers: processes with one thread each, or this process alone, for debugging and small runs."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, Pipe, wait
from typing import TYPE_CHECKING, Any, Protocol

from fedsgt.engine import pool_process
from fedsgt.errors import InputError
from fedsgt.stack import profile
from fedsgt.stack.quick_import import import_transformers

# The worker's module imports torch, which must not happen before the execution profile is set.
if TYPE_CHECKING:
    from fedsgt.engine.worker import Setup, Worker

EVERYWHERE = -1  # number of a job that every worker does; other jobs have numbers from 0 up
# -P: a file beside the script must not stand in for a library.
COMMAND = (sys.executable, "-P", pool_process.__file__)


class Pool(Protocol):
    """Does jobs: calls of a method of `Worker`, each under a number."""

    def submit(self, number: int, method: str, *arguments: Any) -> None:
        """Put a job into the queue."""

    def wait(self) -> tuple[int, Any]:
        """Wait for any job, and return its number with the answer or a `Failure`."""

    def drop(self, numbers: Collection[int]) -> None:
        """Remove these jobs from the queue; answers of those under way still come."""

    def everywhere(self, method: str, *arguments: Any) -> None:
        """Call the method on every worker that has done a job, and raise the first error.

        No other job may be under way, except dropped ones.
        """

    def close(self) -> None:
        """Check that no worker's backbone was modified, and end."""

    def stop(self) -> None:
        """End without a check."""


class Inline:
    """A pool without processes: `wait` does the next job itself."""

    def __init__(self, setup: Setup) -> None:
        profile.apply()
        from fedsgt.engine.worker import Worker

        self.worker: Worker = Worker(setup)
        self.queue: deque[tuple[int, str, tuple[Any, ...]]] = deque()

    def submit(self, number: int, method: str, *arguments: Any) -> None:
        self.queue.append((number, method, arguments))

    def wait(self) -> tuple[int, Any]:
        number, method, arguments = self.queue.popleft()
        try:
            return number, getattr(self.worker, method)(*arguments)
        except Exception as error:
            return number, Failure(error, here=True)  # the error itself: nothing is sent anywhere

    def drop(self, numbers: Collection[int]) -> None:
        self.queue = deque(job for job in self.queue if job[0] not in numbers)

    def everywhere(self, method: str, *arguments: Any) -> None:
        getattr(self.worker, method)(*arguments)

    def close(self) -> None:
        self.everywhere("check")

    def stop(self) -> None:
        self.queue.clear()


class Processes:
    """A pool of processes: each job goes to the next one that is free, in the order of submission."""

    def __init__(self, setup: Setup, workers: int) -> None:
        self.queue: deque[tuple[int, str, tuple[Any, ...]]] = deque()
        self.processes: dict[Connection, subprocess.Popen[bytes]] = {}
        # Pickled once for all, and before any process that would have to be ended after an error.
        prepared = pickle.dumps(setup)
        try:
            # All are started before the first is written to, so that they start at the same time.
            for _ in range(workers):
                self._start()
            for connection in self.processes:
                self._give_setup(connection, prepared)
        except BaseException:
            self.stop()
            raise
        self.idle = list(self.processes)
        self.busy: set[Connection] = set()
        self.used: set[Connection] = set()
        """Processes that have done a job, and so have loaded a backbone."""

    def submit(self, number: int, method: str, *arguments: Any) -> None:
        self.queue.append((number, method, arguments))
        self._hand_out()

    def wait(self) -> tuple[int, Any]:
        self._hand_out()
        connection = wait(list(self.busy))[0]
        assert isinstance(connection, Connection)
        number, answer = self._receive(connection)
        self.busy.remove(connection)
        self.idle.append(connection)
        self._hand_out()  # the process gets its next job before the answer is looked at
        return number, answer

    def drop(self, numbers: Collection[int]) -> None:
        self.queue = deque(job for job in self.queue if job[0] not in numbers)

    def everywhere(self, method: str, *arguments: Any) -> None:
        # All are asked before the first answer is awaited, so that they work at the same time.
        for connection in self.used:
            self._send(connection, (EVERYWHERE, method, arguments))
        for connection in self.used:
            number, answer = self._receive(connection)
            while number != EVERYWHERE:  # the answer to a job that was dropped while it ran
                number, answer = self._receive(connection)
            if isinstance(answer, Failure):
                raise answer.error()

    def close(self) -> None:
        try:
            self.everywhere("check")
        finally:  # no process may outlive the pool, whatever the check says
            self.stop()

    def stop(self) -> None:
        for connection, process in self.processes.items():
            connection.close()
            process.kill()
        for process in self.processes.values():
            process.wait()

    def _start(self) -> None:
        """Start one process, which inherits the environment of the execution profile."""
        # Not forked: a fork would inherit torch's threads and the state of its generators.
        ours, theirs = Pipe()
        handle = theirs.fileno()
        try:
            with _interrupts_held():
                self.processes[ours] = subprocess.Popen(
                    (*COMMAND, str(handle), str(os.getpid())),
                    pass_fds=(handle,),
                    stdin=subprocess.DEVNULL,
                    env=os.environ | profile.environment(),
                )
        except OSError as error:
            raise InputError(f"a worker process cannot be started ({error})") from None
        finally:
            theirs.close()  # otherwise the end of the process would not end the connection

    def _give_setup(self, connection: Connection, prepared: bytes) -> None:
        try:
            connection.send(sys.path)
            connection.send_bytes(prepared)
        except OSError:
            raise self._ended(connection) from None

    def _hand_out(self) -> None:
        """Give a job to each idle process, as long as there are any."""
        while self.queue and self.idle:
            connection = self.idle.pop(0)
            self._send(connection, self.queue.popleft())
            self.busy.add(connection)
            self.used.add(connection)

    def _send(self, connection: Connection, job: tuple[int, str, tuple[Any, ...]]) -> None:
        try:
            connection.send(job)
        except OSError:
            raise self._ended(connection) from None

    def _receive(self, connection: Connection) -> tuple[int, Any]:
        try:
            number, answer = connection.recv()
        except (EOFError, OSError):
            raise self._ended(connection) from None
        return number, answer

    def _ended(self, connection: Connection) -> InputError:
        """Return the error that the process at the other end is gone."""
        code = self.processes[connection].wait()
        return InputError(
            f"a worker process ended by itself (exit code {code}; -9 is often too little memory); "
            "the same command goes on after the last finished round"
        )


class Failure:
    """An error in a worker, in a form that can be sent between processes.

    Not every exception can be pickled, so only `InputError` is sent as it is; the others become text.
    """

    def __init__(self, error: Exception, here: bool = False) -> None:
        self.known = error if here or isinstance(error, InputError) else None
        self.text = "".join(traceback.format_exception(error))

    def error(self) -> Exception:
        """Return the error, to be raised in this process."""
        return self.known or RuntimeError(f"in a worker process:\n{self.text}")


def _answer(worker: Worker, method: str, arguments: tuple[Any, ...]) -> Any:
    """Do a job, and return its answer or a `Failure`."""
    try:
        return getattr(worker, method)(*arguments)
    except Exception as error:
        return Failure(error)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back while a process is started, which then never gets one: this process deals with it."""
    # By the thread's mask, which a child inherits for good; handlers can be set in the main thread only.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def serve(connection: Connection) -> None:
    """Take the pickled setup, and do jobs until the connection ends; runs in a worker process."""
    worker: Worker | None = None
    try:
        setup = connection.recv_bytes()
        while True:
            number, method, arguments = connection.recv()
            # The worker is made with the first job: a process that is never needed loads no model.
            if worker is None:
                made = _worker(setup)
                if isinstance(made, Failure):
                    connection.send((number, made))
                    continue
                worker, setup = made, b""  # emptied: it holds every record a second time
            connection.send((number, _answer(worker, method, arguments)))
    except (EOFError, OSError):  # the caller is gone
        return


def _worker(setup: bytes) -> Worker | Failure:
    """Return a worker, or why there is none; the next job tries again."""
    try:
        profile.apply()
        import_transformers()
        from fedsgt.engine.worker import Worker

        return Worker(pickle.loads(setup))
    except Exception as error:
        return Failure(error)
