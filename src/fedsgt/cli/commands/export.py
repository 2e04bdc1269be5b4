"""`fedsgt export`: write a sequence of a run as an adapter that PEFT loads."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fedsgt.cli.commands.options import RunPath, opened
from fedsgt.cli.commands.train import use_profile


class Heads(StrEnum):
    """Head of an exported adapter."""

    STATISTICS = "statistics"
    TRAINED = "trained"


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
    heads: Annotated[
        Heads | None,
        typer.Option(help="Head of the adapter: `statistics` for the solved one (default: as it serves)."),
    ] = None,
) -> None:
    """Write a sequence's live modules as one stock PEFT adapter (LoRA: of rank k times r), with its head."""
    use_profile()
    written = opened(run).export(
        sequence, depth=depth, output=output, heads=None if heads is None else heads.value
    )
    # Imported after the export, whose mistakes are told before torch is loaded.
    from fedsgt.serving.export import trained_because

    why = trained_because(written)
    if why is not None:
        typer.echo(f"Its head is the trained one: {why}", err=True)
    typer.echo(f"Wrote {written}: load it with peft.PeftModel.from_pretrained(model, {str(written)!r})")
