"""`fedsgt export`: write a sequence of a run as an adapter that PEFT loads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedsgt.cli.commands.options import RunPath
from fedsgt.cli.commands.train import ready_to_train


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
    ready_to_train()
    from fedsgt.runs.folder import open_run
    from fedsgt.serving.export import export_sequence

    written = export_sequence(open_run(run), sequence, depth, output)
    typer.echo(f"Wrote {written}: load it with peft.PeftModel.from_pretrained(model, {str(written)!r})")
