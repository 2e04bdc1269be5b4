"""`fedsgt runs` and `fedsgt show`: list the runs of a folder, and show one of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fedsgt.cli.commands.options import AsJson, RunPath
from fedsgt.cli.views.runs import run_json, run_text, summary_json, summary_line
from fedsgt.errors import InputError
from fedsgt.words import one_line, printable

RUNS = Path("runs")  # where runs are made unless another folder is named


def runs(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Folder to look in.")] = RUNS,
    as_json: AsJson = False,
) -> None:
    """List the runs in a folder."""
    from fedsgt.runs.folder import find_runs, open_run

    # The default folder may be missing: somebody who has no run yet made no mistake.
    if not folder.is_dir() and folder != RUNS:
        raise InputError(
            f"{folder}: {'is a file' if folder.exists() else 'no such folder'}; give a folder of runs"
        )
    found = []
    for path in find_runs(folder):
        try:
            found.append(summary_json(open_run(path)))
        # A damaged run must not hide the others.
        except InputError as error:
            typer.echo(f"fedsgt: left out: {printable(one_line(error))}", err=True)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    elif not found:
        typer.echo(f"no runs in {folder}; `fedsgt demo` makes one")
    else:
        # Names of folders, which another person may have made.
        typer.echo("\n".join(printable(summary_line(one)) for one in found))


def show(run: RunPath, as_json: AsJson = False) -> None:
    """Show what a run is and which of its modules are there."""
    from fedsgt.runs.folder import open_run

    folder = open_run(run)
    folder.live()  # reads the ledger: without it nobody knows what is live
    if as_json:
        typer.echo(json.dumps(run_json(folder), indent=2))
    else:
        typer.echo("\n".join(map(printable, run_text(folder).split("\n"))))
