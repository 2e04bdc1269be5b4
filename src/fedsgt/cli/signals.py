"""Signals that end a command, which must remove its work folder first."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into SystemExit, so that work folders are removed."""
    # By default these end a process without any clean-up; SIGINT raises an exception already. A signal that
    # is ignored, as SIGHUP is under nohup, stays so.
    numbers = (signal.SIGTERM, signal.SIGHUP)
    handled = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    came: list[int] = []

    def leave(number: int, frame: FrameType | None) -> None:
        # The first is enough: another one must not interrupt the clean-up. Looked at before it is noted: a
        # second signal may come between two steps of this very function.
        first = not came
        came.append(number)
        if first:
            sys.exit(128 + number)

    for number in handled:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)
