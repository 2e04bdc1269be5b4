"""`fedsgt predict`: predict images or texts with the live modules of a run."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedsgt.cli.commands.options import RunPath
from fedsgt.cli.commands.train import ready_to_train
from fedsgt.errors import InputError

if TYPE_CHECKING:
    from fedsgt.data import Record
    from fedsgt.runs.folder import RunFolder
    from fedsgt.serving.predictor import Predictions


def predict(
    run: RunPath,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILES]...",
            help="Images, .txt (one text a line), .jsonl or .parquet; - or nothing is standard input.",
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
) -> None:
    """Predict with the modules that are live now, and print JSON."""
    if test and files:
        raise InputError("files and --test are both given; give one of them")
    if limit is not None and not test:
        raise InputError("--limit goes with --test")
    # Torch's environment must be set before anything below imports it.
    ready_to_train()
    from fedsgt.data import labels_of
    from fedsgt.runs.folder import open_run
    from fedsgt.runs.health import problem_lines
    from fedsgt.serving.predictor import Predictor

    folder = open_run(run)
    records = _records(folder, files or [], test, limit)
    answer = Predictor(folder, strategy).predict(records, agreement)
    about = _about(answer, labels_of(records) if test else None)
    # Asked of the state in force, as a later training may have replaced the description.
    names = folder.live().description.label_names
    # Standard output has only JSON, for programs; a person is warned beside it.
    for line in problem_lines(answer.problems):
        typer.echo(f"fedsgt: predicted without it: {line}", err=True)
    if jsonl:
        _print_lines(answer, about, names)
    else:
        typer.echo(json.dumps({**about, "records": _lines(answer, names)}, indent=1))


def _records(folder: RunFolder, files: Sequence[str], test: bool, limit: int | None) -> Sequence[Record]:
    """Return the records of the files, or the run's test records, which have labels."""
    from fedsgt.runs.records import load_test
    from fedsgt.serving.inputs import read_records

    if not test:
        return read_records(files, folder.config, sys.stdin.buffer)
    return load_test(folder.config, folder.description.labels).records[:limit]


def _about(answer: Predictions, labels: Sequence[int] | None) -> dict[str, Any]:
    """Return the facts about the whole prediction, with the accuracy if `labels` are given."""
    from fedsgt.serving.evaluation import Accuracy

    about: dict[str, Any] = {
        "position": answer.position,
        "strategy": answer.strategy,
        "sequences": [
            {"index": sequence.index, "groups": sequence.groups, "weight": sequence.weight}
            for sequence in answer.sequences
        ],
        "damaged": answer.damaged,
        "problems": [module.to_json() for module in answer.problems],
        "bare_backbone": answer.bare_backbone,
    }
    if answer.agreement is not None:
        about["agreement"] = answer.agreement
    if labels is not None:
        about |= asdict(Accuracy.of(answer.probabilities, labels))
    return about


def _lines(answer: Predictions, names: Sequence[str] | None) -> list[dict[str, Any]]:
    return [
        {
            "id": name,
            "label": label,
            **({} if names is None else {"name": names[label]}),
            "probabilities": [float(value) for value in row],
        }
        for name, label, row in zip(answer.ids, answer.labels, answer.probabilities, strict=True)
    ]


def _print_lines(answer: Predictions, about: dict[str, Any], names: Sequence[str] | None) -> None:
    """Print a line for each record; all else goes to standard error, so that the output has only records."""
    typer.echo(json.dumps(about), err=True)
    for line in _lines(answer, names):
        typer.echo(json.dumps({**line, "position": answer.position}))
