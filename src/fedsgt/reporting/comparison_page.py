"""The part of a report that puts the run beside others."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

from fedsgt.reporting.comparison import AHEAD
from fedsgt.reporting.html import Unit, table, unit_of
from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.reporting.comparison import ComparedRun, Comparison
    from fedsgt.reporting.report import Report

# Long names break, so that the numbers stay in sight.
NAME = 'style="width: 12rem; white-space: normal; overflow-wrap: anywhere"'


def comparison_section(report: Report) -> str:
    """Nothing if no other run was named."""
    found = report.comparison
    if found is None:
        return ""
    unit = unit_of(max(row.seconds for row in found.rows))
    names = _names(found)
    lines = [_line(row, name, unit) for row, name in zip(found.rows, names, strict=True)]
    heads = ["run", "accuracy", "modules", "passes", f"training, {unit.name}", "rounds a client"]
    heads += ["requests so far", "requests it lasts, fresh", f"alive after {AHEAD[0]} and {AHEAD[1]} more"]
    shown = table(heads, lines, numbers=range(1, len(heads))) if len(lines) > 1 else ""
    notes = "".join(f'<p class="soft">{escape(note)}</p>' for note in _notes(found, names))
    return f'<h2>Comparison</h2><div class="wide">{shown}</div>{notes}'


def _names(found: Comparison) -> list[str]:
    """The folders' own names if these differ."""
    short = [row.path.name for row in found.rows]
    return short if len(set(short)) == len(short) else [str(row.path) for row in found.rows]


def _line(row: ComparedRun, name: str, unit: Unit) -> list[str]:
    return [
        f'<div {NAME}><b>{escape(name)}</b><br><span class="soft">{escape(row.system)}</span></div>',
        _accuracy(row),
        f"{row.live_modules} live<br>of {row.modules}",
        f"{row.passes:.4g}",
        _seconds(row, unit),
        f"{row.rounds_per_client:.1f}",
        str(row.requests),
        f"{row.until_exhausted:.1f}" if math.isfinite(row.until_exhausted) else "no end",
        "<br>".join(f"{chance:.1%}" for chance in row.alive),
    ]


def _accuracy(row: ComparedRun) -> str:
    found = row.accuracy
    if found is None:
        return "not<br>measured"
    interval = f"{100 * found['low']:.1f} to {100 * found['high']:.1f}"
    return f'{found["accuracy"]:.1%}<br><span class="soft">{interval}</span>'


def _seconds(row: ComparedRun, unit: Unit) -> str:
    if not row.timed_modules:
        return "not known"
    some = "" if row.timed_modules == row.modules else f"<br>of {row.timed_modules}"
    return unit.number(row.seconds) + (f'<span class="soft">{some}</span>' if some else "")


def _notes(found: Comparison, names: list[str]) -> Iterable[str]:
    for row, name in zip(found.rows, names, strict=True):
        unlike = found.unlike(row)
        if unlike:
            yield f"{name} has {' and '.join(unlike)}: its accuracy is not comparable with {names[0]}'s."
    if any(row.accuracy is None and row.live_modules for row in found.rows):
        yield "fedsgt evaluate measures the accuracies that are not measured yet, a run at a time."
    for reason in found.left_out:
        yield f"Left out: {reason}"
    records = sorted({row.test_records for row in found.rows if row.accuracy and row.test_records})
    measured = " or ".join(counted(number, "test record") for number in records)
    yield (
        (f"Accuracies are as each run serves, on {measured}, with 95 % intervals. " if records else "")
        + "A request is taken to be about one slice that has records, each alike; a run that trains again "
        "after requests lasts longer. Training is workers' time, of the modules that are there: see Costs."
    )
    if len(found.rows) > 1:
        yield "Deletions from the other runs do not reach this page: make it anew after one."
