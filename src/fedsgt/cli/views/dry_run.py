"""What `fedsgt unlearn --dry-run` shows."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from fedsgt.cli.views.progress import progress
from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.reporting.impact import Impact, ServingState
    from fedsgt.runs.folder import RunFolder
    from fedsgt.unlearning.request import Deletion

MOST_SHOWN = 12


def show_dry_run(folder: RunFolder, deletions: Sequence[Deletion], as_json: bool) -> None:
    from fedsgt.cli.commands.train import set_profile
    from fedsgt.reporting.impact import impact

    set_profile()
    with progress("Evaluating") as done:
        found = impact(folder, deletions, accuracy=True, progress=done)
    typer.echo(json.dumps(found.to_json(), indent=2) if as_json else _page(found))


def _page(found: Impact) -> str:
    before, after = found.before, found.after
    groups = ", ".join(map(str, found.groups)) or "none"
    names = ["-".join(map(str, prefix)) for prefix in found.dying]
    shown = ", ".join(names[:MOST_SHOWN]) + (", ..." if len(names) > MOST_SHOWN else "")
    lines = [
        "dry run: nothing was changed",
        f"would delete   {counted(found.records, 'record')}; groups hit: {groups}",
        f"would destroy  {counted(len(names), 'module')}" + (f": {shown}" if names else ""),
        "",
        f"{'':<26}{'now':>10}{'then':>10}",
        _row("live modules", before.live_counts.modules, after.live_counts.modules),
        _row("sequences that serve", before.sequences, after.sequences),
        _row("groups of the longest", before.live_counts.groups, after.live_counts.groups),
        _row("requests until exhausted", _left(before), _left(after)),
    ]
    if before.accuracy is not None:
        lines.append(_row("accuracy, test records", _percent(before), _percent(after)))
    if not after.live_counts.modules:
        lines += ["", "nothing would be left to serve: every module would be dead"]
    return "\n".join(lines)


def _row(name: str, now: object, then: object) -> str:
    return f"{name:<26}{now!s:>10}{then!s:>10}"


def _left(side: ServingState) -> str:
    return f"{side.requests_left:.1f}" if math.isfinite(side.requests_left) else "no end"


def _percent(side: ServingState) -> str:
    return "none" if side.accuracy is None else f"{100 * side.accuracy:.1f} %"
