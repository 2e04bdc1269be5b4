"""Progress of long work, on standard error: a bar with the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
)
from rich.text import Text

from fedsgt.engine.time_left import Countdown, ShareTime
from fedsgt.words import shown_seconds


class TimeLeftColumn(ProgressColumn):
    """The time left by our own estimate, which a task has as its field `left`.

    Rich's own column takes all parts of the work for equal, and the start of processes for work.
    """

    max_refresh = 0.5  # seconds

    def render(self, task: Task) -> Text:
        return Text(left_text(task.fields.get("left")), style="progress.remaining")


def left_text(left: Countdown | None) -> str:
    """Return "about 12 s left", or nothing if that is not known."""
    seconds = None if left is None else left.now()
    return "" if seconds is None else f"about {shown_seconds(seconds)} left"


@contextmanager
def progress(label: str) -> Iterator[Callable[[float], None]]:
    """Yield a function to call with the share that is done, from 0 to 1."""
    console, time = Console(stderr=True), ShareTime()
    if not console.is_terminal:
        yield _plain_lines(label, time)
        return
    columns = (SpinnerColumn(), TextColumn(label), BarColumn(), TaskProgressColumn(), TimeLeftColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(label, total=1.0, left=time.left)

        def show(share: float) -> None:
            time.told(share)
            bar.update(task, completed=share)

        yield show


def _plain_lines(label: str, time: ShareTime) -> Callable[[float], None]:
    """Return a function that prints a line at the beginning and after each quarter of the work."""
    said = -1

    def say(share: float) -> None:
        nonlocal said
        time.told(share)
        quarter = int(share * 4)
        if quarter > said:
            said = quarter
            left = left_text(time.left) if share < 1 else ""
            print(f"{label}: {share:.0%}{left and f', {left}'}", file=sys.stderr, flush=True)

    return say
