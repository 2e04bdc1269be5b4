"""Signals that end a command: they become an exception, so that it can clean up, and never a traceback."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, NoReturn

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# One Ctrl-C often comes twice: from the terminal, and from a program that passes it on.
PATIENCE_SECONDS = 2.0
AGAIN_SECONDS = 0.02
SHOW_CURSOR = b"\x1b[?25h"


class Terminated(SystemExit):
    """SIGTERM or SIGHUP came; the exit code is that of shells, 128 and the number of the signal."""

    code: int


@dataclass
class _State:
    depth: int = 0
    """Number of contexts that are open."""
    careful: int = 0
    """Number of open contexts in which nothing may keep the command from cleaning up."""
    number: int = 0
    """The signal that has raised an exception; 0 if none has."""
    at: float = 0.0
    """Moment of that exception."""
    reminder: _Reminder | None = None


class _Reminder:
    """A thread that sends a signal to the main thread again and again, until it has raised its exception.

    Python's handlers run in the main thread, which may be asleep: the system gave the signal to another
    thread, or gave it just before the main one began to wait. And in an import the handler only returns.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._other = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        self._lock, self._ended = threading.Lock(), False
        threading.Thread(target=self._remind, daemon=True).start()

    def add(self, number: int) -> None:
        """Have a signal sent; nothing in here takes a lock, because handlers call it."""
        with suppress(BlockingIOError):  # full of signals that are to be sent
            os.write(self._writer, bytes([number]))

    def end(self) -> None:
        """Send nothing from now on: the handlers are about to go."""
        signal.set_wakeup_fd(self._other)
        with self._lock:
            self._ended = True
        os.close(self._writer)

    def _remind(self) -> None:
        main = threading.main_thread().ident
        assert main is not None
        while came := os.read(self._reader, 512):
            time.sleep(AGAIN_SECONDS)
            with self._lock:
                if not self._ended and not _state.number:
                    for number in set(came).intersection(NUMBERS):
                        signal.pthread_kill(main, number)
        os.close(self._reader)


_state = _State()


@contextmanager
def exceptions_for_signals(*, careful: bool = False) -> Iterator[None]:
    """Raise KeyboardInterrupt at SIGINT and Terminated at SIGTERM and SIGHUP, at the first of them only.

    Later ones are for a person who insists: after a while they end the process. A `careful` command is never
    ended so, because it has promised to say what it has done, or to remove a folder with records.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can have handlers
        return
    # A signal that is ignored, as SIGHUP is under nohup, stays so.
    handled = [number for number in NUMBERS if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    hook = sys.unraisablehook
    if not _state.depth:
        _state.reminder = _Reminder()
    _state.depth += 1
    _state.careful += careful
    sys.unraisablehook = _lost_exceptions(hook)
    logged = logging.lastResort or logging.NullHandler()  # where libraries log that nobody has set up
    logged.addFilter(_no_signal)
    before = {number: signal.signal(number, _handle) for number in handled}
    try:
        yield
    finally:
        _state.depth -= 1
        _state.careful -= careful
        if _state.reminder and not _state.depth:
            _state.reminder.end()
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.unraisablehook = hook
        if not _state.depth:  # a context around this one still needs both
            logged.removeFilter(_no_signal)
            _state.number = 0


def exit_on_signals() -> AbstractContextManager[None]:
    """Raise at the first signal, so that a command with promises to keep cleans up; ignore the others."""
    return exceptions_for_signals(careful=True)


def _handle(number: int, frame: FrameType | None) -> None:
    if _state.number:
        if not _state.careful and time.monotonic() - _state.at > PATIENCE_SECONDS:
            _leave(number)
        return
    # A library that is being imported may take the exception for a missing package, and go on without it.
    if _importing(frame):
        if not _state.careful:
            _leave(number)
        return  # it comes again
    _state.number, _state.at = number, time.monotonic()
    raise KeyboardInterrupt if number == signal.SIGINT else Terminated(128 + number)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None


def _leave(number: int) -> NoReturn:
    """End the process without any clean-up; what it was writing is found, or not, as after a power cut."""
    if os.isatty(2):
        os.write(2, SHOW_CURSOR)  # progress bars hide it
    os._exit(128 + number)


def _lost_exceptions(otherwise: Callable[[sys.UnraisableHookArgs], Any]) -> Callable[[Any], None]:
    """Return a hook for exceptions that Python would print and forget, as those in `__del__`.

    If a signal has raised one, the signal is sent again.
    """

    def hook(lost: sys.UnraisableHookArgs) -> None:
        if _state.reminder and _state.number and isinstance(lost.exc_value, KeyboardInterrupt | Terminated):
            number, _state.number = _state.number, 0
            _state.reminder.add(number)
        else:
            otherwise(lost)

    return hook


def _no_signal(record: logging.LogRecord) -> bool:
    """Whether a message is about anything else: libraries log what passes them, with a traceback."""
    return record.exc_info is None or not isinstance(record.exc_info[1], KeyboardInterrupt | Terminated)
