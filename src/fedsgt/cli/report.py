"""`fedsgt report`: one HTML page on a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsgt.cli.options import RunPath

if TYPE_CHECKING:
    from fedsgt.build.run import RunFolder


def report(
    run: RunPath,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="RUN/report.html without it.")
    ] = None,
    evaluate: Annotated[
        bool,
        typer.Option(
            "--evaluate/--no-evaluate",
            help="Measure accuracies if none of what is live are there; needs torch.",
        ),
    ] = True,
) -> None:
    """Write one page: configuration, module tree, accuracy, unlearning curve, outlook, certificates."""
    from fedsgt.build.run import open_run

    folder = open_run(run)
    if evaluate:
        from fedsgt.cli.train import ready_to_train

        ready_to_train()
    from fedsgt.unlearning.report import write_report

    written = write_report(folder, output, _evaluate if evaluate else None)
    typer.echo(f"Wrote {written}")
    if written.parent != folder.path.resolve():
        typer.echo(
            f"fedsgt: later deletions do not reach {written}: delete it when its figures must go", err=True
        )


def _evaluate(folder: RunFolder) -> None:
    from fedsgt.build.evaluate import evaluate
    from fedsgt.cli.progress import progress

    with progress("Evaluating") as done:
        evaluate(folder, done)
