"""`fedsgt export`: write a sequence of a run as an adapter that PEFT loads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedsgt.cli.commands.options import RunPath, opened
from fedsgt.cli.commands.train import use_profile


def export(
    run: RunPath,
    sequence: Annotated[int, typer.Option(help="Number of the sequence, from 0.")],
    depth: Annotated[
        int | None,
        typer.Option(help="Export only this many of its first modules (default: all that are live)."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder to write (default: one in RUN/export).")
    ] = None,
) -> None:
    """Write a sequence's live modules as one stock PEFT adapter (LoRA: of rank k times r), with its head."""
    use_profile()
    written = opened(run).export(sequence, depth=depth, output=output)
    typer.echo(f"Wrote {written}: load it with peft.PeftModel.from_pretrained(model, {str(written)!r})")
