"""`fedsgt copy`: make a deliberate copy of a run, with an id of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedsgt.cli.commands.options import RunPath
from fedsgt.words import counted


def copy(
    run: RunPath, new: Annotated[Path, typer.Argument(metavar="NEW", help="Folder of the copy, a new one.")]
) -> None:
    """Copy what is live of a run into a run of its own; deletions must be asked for in each of the two."""
    from fedsgt.runs.copy import copy_run
    from fedsgt.runs.folder import open_run

    made = copy_run(open_run(run), new)
    typer.echo(
        f"{new}: a copy with {counted(len(made.present()), 'module')} and an id of its own "
        f"({made.description.id}); a deletion in one of the two runs does not reach the other"
    )
