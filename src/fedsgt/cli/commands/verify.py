"""`fedsgt verify`: make the served modules and statistics again from retained data, and compare every bit."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from fedsgt.cli.commands.options import AsJson, RunPath, opened
from fedsgt.cli.commands.recovering import recover_and_tell
from fedsgt.cli.commands.train import use_profile
from fedsgt.cli.signals import exit_on_signals
from fedsgt.cli.views.progress import progress
from fedsgt.cli.views.proof import verification_text

SAME, WRONG, UNKNOWN = 0, 1, 3  # exit codes; 2 is that of wrong input


def verify(
    path: RunPath,
    sample: Annotated[
        int | None,
        typer.Option(metavar="K", min=1, help="Rebuild only K modules, drawn at random, and their parents."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the draw, to repeat it (default: a new one).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Rebuild the served modules from retained data, with deleted records absent, and compare their hashes.

    Statistics, from which heads are solved, are made again and compared too.

    Exit code 0 if all are the same, 1 if one is not, 3 if some cannot be compared on this machine.
    """
    run = opened(path)
    # Where nothing can be written, the verification names requests that were cut short instead.
    if run.folder.writable:
        recover_and_tell(run.folder)
    use_profile()  # the rebuilding process inherits it
    with exit_on_signals(), progress("Rebuilding") as done:
        found = run.verify(sample, seed=seed, progress=done)
    if as_json:
        typer.echo(json.dumps({"run": str(path), **found.to_json()}, indent=1))
    else:
        typer.echo(verification_text(found.detail))
    raise typer.Exit(WRONG if found.failed else SAME if found.passed else UNKNOWN)
