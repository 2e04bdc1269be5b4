"""`fedsgt forgetting`: membership inference on deleted records, before and after their deletion."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from fedsgt.cli.commands.options import AsJson, RunPath, check_plot
from fedsgt.cli.commands.train import ready_to_train
from fedsgt.cli.views.forgetting import draw_roc, forgetting_text
from fedsgt.cli.views.progress import progress
from fedsgt.words import counted


def forgetting(
    run: RunPath,
    deleted: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Parquet file with deleted records that the source has no more."),
    ] = None,
    shadows: Annotated[
        int, typer.Option(metavar="K", min=4, help="Shadow models of LiRA, an even number.")
    ] = 16,
    shadow_rounds: Annotated[
        int | None, typer.Option(metavar="R", min=1, help="Rounds of each; about a sequence's without it.")
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(help="all, min, long (quick: one sequence) or merged; as configured without it."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Attack so many of the deleted records at most.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all that is drawn at random.")] = 0,
    as_json: AsJson = False,
    plot: Annotated[Path | None, typer.Option(help="Also draw the ROC curves (.svg, .png, .pdf).")] = None,
) -> None:
    """Can an attacker tell deleted records from unseen ones, before and after? For simulations."""
    if plot is not None:
        check_plot(plot)
    ready_to_train()
    from fedsgt.forgetting.measure import measure
    from fedsgt.runs.folder import open_run
    from fedsgt.unlearning.unlearn import recover

    folder = open_run(run)
    recover(folder)
    with _cleaned_up(), progress("Attacking") as done:
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
        "to attack the system as it was. What comes of them lies in a temporary folder that is removed at "
        "the end; nothing is written to the run. Do not use it where a deletion was promised to anybody.",
        err=True,
    )


@contextmanager
def _cleaned_up() -> Iterator[None]:
    """Who ends the process in the usual ways ends it in order, so that the temporary folder goes too."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, lambda which, _: sys.exit(128 + which)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
