"""Progress of long work, on standard error: a bar with the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)


@contextmanager
def progress(label: str) -> Iterator[Callable[[float], None]]:
    """Yield a function to call with the share that is done, from 0 to 1."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _plain_lines(label)
        return
    columns = (SpinnerColumn(), TextColumn(label), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(label, total=1.0)
        yield lambda share: bar.update(task, completed=share)


def _plain_lines(label: str) -> Callable[[float], None]:
    """Return a function that prints a line at the beginning and after each quarter of the work."""
    said = -1

    def say(share: float) -> None:
        nonlocal said
        quarter = int(share * 4)
        if quarter > said:
            said = quarter
            print(f"{label}: {share:.0%}", file=sys.stderr, flush=True)

    return say
