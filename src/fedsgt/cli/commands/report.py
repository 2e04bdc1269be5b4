"""`fedsgt report`: write one HTML page about a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fedsgt.cli.commands.options import AsJson, RunPath, opened
from fedsgt.cli.commands.train import use_profile
from fedsgt.cli.views.progress import progress
from fedsgt.errors import InputError


def report(
    path: RunPath,
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
    if as_json and output is not None:
        raise InputError("--json prints, and writes no file; leave out -o, or redirect what is printed")
    run, others = opened(path), against or []
    if evaluate:
        use_profile()
    if evaluate and not run.folder.writable:
        typer.echo("fedsgt: this user can only read the run, so no accuracies are measured", err=True)
    with progress("Evaluating") as done:
        if as_json:
            found = run.report_json(evaluate=evaluate, against=others, progress=done)
            typer.echo(json.dumps(found, indent=2))
            return
        written = run.report(output, evaluate=evaluate, against=others, progress=done)
    typer.echo(f"Wrote {written}")
    # A deletion destroys the page in the run's folder and knows of no other.
    if written.parent != run.path.resolve():
        typer.echo(
            f"fedsgt: later deletions do not reach {written}: delete it when its figures must go", err=True
        )
