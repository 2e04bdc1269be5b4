"""`fedsgt predict`: predict images or texts with the live modules of a run."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from fedsgt.cli.commands.options import AsJson, RunPath, opened
from fedsgt.cli.commands.train import use_profile
from fedsgt.errors import InputError

if TYPE_CHECKING:
    from fedsgt.api.results.serving import Predictions


def predict(
    path: RunPath,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILES]...",
            help="Images, .txt (one text a line), .csv, .jsonl or .parquet; - or nothing is standard input.",
        ),
    ] = None,
    test: Annotated[bool, typer.Option("--test", help="Predict the run's own test records.")] = False,
    limit: Annotated[int | None, typer.Option(help="With --test: predict only the first N.", min=1)] = None,
    strategy: Annotated[
        str | None, typer.Option(help="all, min, long or merged (default: as the run is configured).")
    ] = None,
    agreement: Annotated[
        bool, typer.Option(help="With merged: also compare with AllSeq, which costs as much as AllSeq.")
    ] = True,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="Print one line for each record instead of one document.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Predict with the modules that are live now; a table on a terminal, JSON elsewhere."""
    if test and files:
        raise InputError("files and --test are both given; give one of them")
    if limit is not None and not test:
        raise InputError("--limit goes with --test")
    if jsonl and as_json:
        raise InputError("--json and --jsonl are both given; give one of them")
    use_profile()
    from fedsgt.serving.heads import damaged_lines
    from fedsgt.serving.inputs import read_records

    run = opened(path)
    if test:
        found = run.predict_test(limit, strategy=strategy, agreement=agreement)
    else:
        records = read_records(files or [], run.config, sys.stdin.buffer)
        found = run.predict(records, strategy=strategy, agreement=agreement)
    # Standard output has the answers alone; a person is warned beside it.
    for line in found.problems:
        typer.echo(f"fedsgt: predicted without it: {line}", err=True)
    for line in damaged_lines(path, found.damaged_statistics):
        typer.echo(f"fedsgt: left out of the heads: {line}", err=True)
    _print(found, jsonl, as_json)


def _print(found: Predictions, jsonl: bool, as_json: bool) -> None:
    if jsonl:
        # All but the records goes to standard error, so that the output has only records.
        typer.echo(json.dumps(found.about()), err=True)
        for answer in found:
            typer.echo(json.dumps({**answer.to_json(), "position": found.position}))
    elif as_json or not sys.stdout.isatty():
        typer.echo(json.dumps(found.to_json(), indent=1))
    else:
        from fedsgt.cli.views.predictions import predictions_table

        predictions_table(found)
