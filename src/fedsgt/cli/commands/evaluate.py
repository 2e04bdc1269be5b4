"""`fedsgt evaluate`: measure the accuracy of every live prefix and of every strategy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsgt.cli.commands.options import AsJson, RunPath, check_plot, opened
from fedsgt.cli.commands.train import use_profile
from fedsgt.cli.views.evaluation import draw_evaluation, evaluation_text
from fedsgt.cli.views.progress import progress
from fedsgt.errors import InputError

if TYPE_CHECKING:
    from fedsgt.api.run import Run


def evaluate(
    run: RunPath,
    as_json: AsJson = False,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw the curves into this file (.svg, .png or .pdf).")
    ] = None,
) -> None:
    """Measure the accuracy of every live module of a run, by sequence and depth, and of each strategy."""
    evaluate_run(run, as_json, plot)


def evaluate_run(path: Path, as_json: bool = False, plot: Path | None = None) -> None:
    """Evaluate a run and print the result."""
    use_profile()
    if plot is not None:
        check_plot(plot)
    from fedsgt.serving.heads import damaged_lines

    run = opened(path)
    with progress("Evaluating") as done:
        found = run.evaluate(progress=done)
    for line in run.problems:
        typer.echo(f"fedsgt: evaluated without it: {line}", err=True)
    for line in damaged_lines(path, found.damaged_statistics):
        typer.echo(f"fedsgt: left out of the heads: {line}", err=True)
    if not found.strategies:
        raise InputError(f"{path}: {_why_nothing_serves(run)}")
    if plot is not None:
        draw_evaluation(plot, found.detail)
    shown = (
        json.dumps(found.to_json(), indent=1) if as_json else evaluation_text(found.detail, found.strategy)
    )
    typer.echo(shown)
    if plot is not None and not as_json:
        typer.echo(f"\nDrawn into {plot}")


def _why_nothing_serves(run: Run) -> str:
    from fedsgt.reporting.heads import a_record_is_left

    if not a_record_is_left(run.folder.live()):
        return "no record is left, so nothing can be served"
    return "no module is live; fedsgt train or retrain makes some"
