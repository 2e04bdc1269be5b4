"""`fedsgt forgetting`: attack deleted records with membership inference, before and after deletion."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fedsgt.cli.commands.options import AsJson, RunPath, check_plot
from fedsgt.cli.commands.recovering import recover_and_tell
from fedsgt.cli.commands.train import use_profile
from fedsgt.cli.signals import exit_on_signals
from fedsgt.cli.views.forgetting import draw_roc, forgetting_text
from fedsgt.cli.views.progress import progress
from fedsgt.words import counted


def forgetting(
    run: RunPath,
    deleted: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Parquet file of deleted records that the source no longer has."),
    ] = None,
    shadows: Annotated[
        int, typer.Option(metavar="K", min=4, help="Number of shadow models of LiRA, even.")
    ] = 16,
    shadow_rounds: Annotated[
        int | None,
        typer.Option(
            metavar="R", min=1, help="Rounds of each shadow model (default: about those of a sequence)."
        ),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(help="all, min, long (quick: one sequence) or merged (default: as configured)."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Attack at most N of the deleted records.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything that is drawn at random.")] = 0,
    as_json: AsJson = False,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw the ROC curves into this file (.svg, .png or .pdf).")
    ] = None,
) -> None:
    """Measure how well an attacker tells deleted records from unseen ones. Only for simulations."""
    # A wrong path is told now, and not after minutes of training.
    if plot is not None:
        check_plot(plot)
    from fedsgt.api.session import check_torch

    check_torch()
    use_profile()
    from fedsgt.forgetting.measure import measure
    from fedsgt.runs.folder import open_run

    folder = open_run(run)
    recover_and_tell(folder)  # so that "after" is the system without the data of requests that were cut short
    with exit_on_signals(), progress("Attacking") as done:
        found = measure(
            folder,
            deleted=deleted,
            shadows=shadows,
            shadow_rounds=shadow_rounds,
            strategy=strategy,
            limit=limit,
            seed=seed,
            begin=_warn,
            progress=done,
        )
    if plot is not None:
        draw_roc(plot, found)
    typer.echo(
        json.dumps({"run": str(run), **found.to_json()}, indent=1) if as_json else forgetting_text(found)
    )
    if plot is not None and not as_json:
        typer.echo(f"\nDrawn into {plot}")


def _warn(records: int) -> None:
    typer.echo(
        f"fedsgt: AN EXPERIMENT FOR SIMULATIONS: this trains on {counted(records, 'deleted record')} again, "
        "to attack the system as it was. What comes of them lies in the run's folder, under work/, and is "
        "removed at the end. Do not use it where a deletion was promised to anybody.",
        err=True,
    )
