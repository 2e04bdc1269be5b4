"""Worker processes with one thread each, or none: the same jobs done in this process, for debugging."""

from __future__ import annotations

import ctypes
import multiprocessing
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Collection
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any, Protocol

from fedsgt.errors import InputError
from fedsgt.stack import profile

if TYPE_CHECKING:  # the worker's module imports torch, which a worker process must do under its profile
    from fedsgt.engine.worker import Setup, Worker

EVERYWHERE = -1  # number of a job that every worker does
KILL_WITH_PARENT = 1  # PR_SET_PDEATHSIG


class Pool(Protocol):
    """Jobs are a number, a method of Worker and its arguments; answers, or failures, come in any order."""

    def submit(self, number: int, method: str, *arguments: Any) -> None: ...

    def wait(self) -> tuple[int, Any]: ...

    def drop(self, numbers: Collection[int]) -> None:
        """Forget these jobs, but for those under way: their answers still come."""

    def everywhere(self, method: str, *arguments: Any) -> None:
        """Done by every worker that did a job, when no other is under way; raises what one of them raises."""

    def close(self) -> None:
        """Check the backbone everywhere, and end."""

    def stop(self) -> None: ...


class Inline:
    """Jobs done in this process, when their answer is asked for."""

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
            return number, Failure(error, here=True)

    def drop(self, numbers: Collection[int]) -> None:
        self.queue = deque(job for job in self.queue if job[0] not in numbers)

    def everywhere(self, method: str, *arguments: Any) -> None:
        getattr(self.worker, method)(*arguments)

    def close(self) -> None:
        self.everywhere("check")

    def stop(self) -> None:
        self.queue.clear()


class Processes:
    """Jobs go to whichever process is free, in the order in which they came."""

    def __init__(self, setup: Setup, workers: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.queue: deque[tuple[int, str, tuple[Any, ...]]] = deque()
        self.processes: dict[Connection, BaseProcess] = {}
        with profile.environment_set():
            for _ in range(workers):
                ours, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(theirs, setup), daemon=True)
                _start(process)
                theirs.close()
                self.processes[ours] = process
        self.idle = list(self.processes)
        self.busy: set[Connection] = set()
        self.used: set[Connection] = set()

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
        self._hand_out()
        return number, answer

    def drop(self, numbers: Collection[int]) -> None:
        self.queue = deque(job for job in self.queue if job[0] not in numbers)

    def everywhere(self, method: str, *arguments: Any) -> None:
        for connection in self.used:
            self._send(connection, (EVERYWHERE, method, arguments))
        for connection in self.used:
            number, answer = self._receive(connection)
            while number != EVERYWHERE:  # a job that was dropped while it ran
                number, answer = self._receive(connection)
            if isinstance(answer, Failure):
                raise answer.error()

    def close(self) -> None:
        try:
            self.everywhere("check")
        finally:
            self.stop()

    def stop(self) -> None:
        for connection, process in self.processes.items():
            connection.close()
            process.terminate()
            process.join()

    def _hand_out(self) -> None:
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
        self.processes[connection].join()
        code = self.processes[connection].exitcode
        return InputError(
            f"a worker process ended by itself (exit code {code}; -9 is often too little memory); "
            "the same command goes on after the last finished round"
        )


class Failure:
    """What went wrong in a worker, in a form that can be sent, unless it happened in this process."""

    def __init__(self, error: Exception, here: bool = False) -> None:
        self.known = error if here or isinstance(error, InputError) else None
        self.text = "".join(traceback.format_exception(error))

    def error(self) -> Exception:
        return self.known or RuntimeError(f"in a worker process:\n{self.text}")


def _done(worker: Worker, method: str, arguments: tuple[Any, ...]) -> Any:
    try:
        return getattr(worker, method)(*arguments)
    except Exception as error:
        return Failure(error)


def _start(process: BaseProcess) -> None:
    """Ctrl-C is for this process to deal with; a new one ignores it from its first moment."""
    ours = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if ours else None
    try:
        process.start()
    except OSError as error:
        raise InputError(f"a worker process cannot be started ({error})") from None
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)


def _serve(connection: Connection, setup: Setup) -> None:
    """The life of a worker process; it ends with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(KILL_WITH_PARENT, signal.SIGKILL)
    worker: Any = None
    while True:
        try:
            number, method, arguments = connection.recv()
        except (EOFError, OSError):
            return
        if worker is None or isinstance(worker, Failure):
            worker = _worker(setup)
        connection.send((number, worker if isinstance(worker, Failure) else _done(worker, method, arguments)))


def _worker(setup: Setup) -> Worker | Failure:
    from fedsgt.engine.worker import Worker

    try:
        return Worker(setup)
    except Exception as error:
        return Failure(error)
