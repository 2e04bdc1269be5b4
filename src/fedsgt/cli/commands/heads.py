"""`fedsgt heads`: make the statistics that are missing, from which heads are solved."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from fedsgt.cli.commands.options import AsJson, RunPath, opened
from fedsgt.cli.commands.recovering import recover_and_tell
from fedsgt.cli.commands.train import stoppable, use_profile
from fedsgt.errors import InputError
from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.api.run import Run


def heads(path: RunPath, as_json: AsJson = False) -> None:
    """Make the statistics that are missing, such as those of a client after a deletion.

    Heads are solved from them over all retained records. Training makes them, and so does a deletion where
    the records are on this machine.
    """
    run = opened(path)
    if not run.config.heads.solve:
        raise InputError(
            f"{path}: this run solves no heads (heads.solve is false); a new run does; nothing was changed"
        )
    run.folder.check_writable()
    recover_and_tell(run.folder)
    made = renew(run)
    found = heads_json(run)
    if as_json:
        typer.echo(json.dumps({"made": made, **found}, indent=2))
        return
    now = f"{counted(made, 'statistic')} made now" if made else "nothing is missing"
    typer.echo(
        f"{path}: {now}; {counted(found['statistics'], 'statistic')} of "
        f"{counted(found['chains'], 'chain')} count, of {counted(found['records'], 'record')}"
    )


def renew(run: Run) -> int:
    """Make the statistics that are missing, with progress; return how many were made."""
    use_profile()
    from fedsgt.cli.views.training import training_view

    with stoppable(), training_view() as view:
        return run.renew_heads(progress=view)


def heads_json(run: Run) -> dict[str, int]:
    """Return how many statistics count, of how many chains and records."""
    from fedsgt.runs.statistics import records_behind, statistics_in_force

    there = statistics_in_force(run.folder, run.folder.live())
    return {
        "statistics": sum(map(len, there.values())),
        "chains": len(there),
        "records": records_behind(run.folder, there),
    }
