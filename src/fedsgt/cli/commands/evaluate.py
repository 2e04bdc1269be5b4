"""`fedsgt evaluate`: measure the accuracy of every live prefix and of every strategy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedsgt.cli.commands.options import AsJson, RunPath, check_plot
from fedsgt.cli.commands.train import ready_to_train
from fedsgt.cli.views.evaluation import draw_evaluation, evaluation_text
from fedsgt.cli.views.progress import progress
from fedsgt.errors import InputError


def evaluate(
    run: RunPath,
    as_json: AsJson = False,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw the curves into this file (.svg, .png or .pdf).")
    ] = None,
) -> None:
    """Measure the accuracy of every live module of a run, by sequence and depth, and of each strategy."""
    evaluate_run(run, as_json, plot)


def evaluate_run(run: Path, as_json: bool = False, plot: Path | None = None) -> None:
    """Evaluate a run and print the result."""
    ready_to_train()
    from fedsgt.runs.folder import open_run
    from fedsgt.runs.health import module_health, problem_lines
    from fedsgt.serving.evaluation import evaluate as score_run

    if plot is not None:
        check_plot(plot)
    folder = open_run(run)
    with progress("Evaluating") as done:
        found = score_run(folder, done)
    for line in problem_lines(module_health(folder, folder.live()).problems):
        typer.echo(f"fedsgt: evaluated without it: {line}", err=True)
    if not found.strategies:
        raise InputError(f"{run}: no module is live; fedsgt train or retrain makes some")
    if plot is not None:
        draw_evaluation(plot, found)
    typer.echo(found.to_text().rstrip() if as_json else evaluation_text(found))
    if plot is not None and not as_json:
        typer.echo(f"\nDrawn into {plot}")
