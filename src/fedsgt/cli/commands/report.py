"""`fedsgt report`: write one HTML page about a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsgt.cli.commands.options import AsJson, RunPath
from fedsgt.errors import InputError

if TYPE_CHECKING:
    from fedsgt.runs.folder import RunFolder


def report(
    run: RunPath,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="File to write (default: RUN/report.html)."),
    ] = None,
    evaluate: Annotated[
        bool,
        typer.Option(
            "--evaluate/--no-evaluate",
            help="Measure accuracies if the live modules were not evaluated; needs torch.",
        ),
    ] = True,
    against: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="RUN", help="Compare with this run; may be repeated. Later reports do so again."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write one page: module tree, unlearning curve, accuracy, comparison, costs, certificates, settings."""
    from fedsgt.runs.folder import open_run

    if as_json and output is not None:
        raise InputError("--json prints, and writes no file; leave out -o, or redirect what is printed")
    folder, others = open_run(run), against or []
    if evaluate:
        from fedsgt.cli.commands.train import ready_to_train

        ready_to_train()  # comes before the first import that may load torch
    from fedsgt.reporting.report import read_report, write_report

    measure = _evaluate if evaluate and folder.writable else None
    if evaluate and not folder.writable:
        typer.echo("fedsgt: this user can only read the run, so no accuracies are measured", err=True)
    if as_json:
        typer.echo(json.dumps(read_report(folder, measure, others).to_json(), indent=2))
    else:
        _tell(folder, write_report(folder, output, measure, others))


def _tell(folder: RunFolder, written: Path) -> None:
    typer.echo(f"Wrote {written}")
    # A deletion destroys the page in the run's folder and knows of no other.
    if written.parent != folder.path.resolve():
        typer.echo(
            f"fedsgt: later deletions do not reach {written}: delete it when its figures must go", err=True
        )


def _evaluate(folder: RunFolder) -> None:
    from fedsgt.cli.views.progress import progress
    from fedsgt.serving.evaluation import evaluate

    with progress("Evaluating") as done:
        evaluate(folder, done)
