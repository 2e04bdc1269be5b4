"""Comparison of systems in a terminal: its progress on standard error, and its short table."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn

if TYPE_CHECKING:
    from fedsgt.api.comparing.progress import Advance, Listening
    from fedsgt.api.results.comparison import Comparison


@contextmanager
def comparison_view() -> Iterator[Listening]:
    """Yield a function that shows how far it is: a bar on a terminal, elsewhere a line for each result."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _print_result
        return
    columns = (
        SpinnerColumn(),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading", total=1.0)
        yield lambda advance: bar.update(task, completed=advance.share, description=advance.text())


def _print_result(advance: Advance) -> None:
    if advance.point is not None:
        print(advance.text(), file=sys.stderr, flush=True)


def comparison_text(found: Comparison) -> str:
    """Return the short table, and what its columns are."""
    headers, rows = found.overview()
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    lines = [f"accuracy in percent over {found.about()}", ""]
    for row in (headers, *rows):
        cells = [
            row[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
        ]
        lines.append("  ".join(cells).rstrip())
    spread = " ± is half the 95 % interval over seeds;" if len(found.seeds) > 1 else ""
    lines += [
        "",
        f"after N: after N requests;{spread} none: nothing is served",
        f"mean: over all requests, no service counted as a guess ({found.chance:.1%})",
        "served: requests withstood; passes: training over all the data, retraining included",
        *(
            ["forward: forward passes over the data for statistics of heads; three take as long as an epoch"]
            if "forward" in headers
            else []
        ),
    ]
    return "\n".join(lines)
