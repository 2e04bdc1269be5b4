"""Predictions on a terminal: a short table, with nothing of the records taken for markup."""

from __future__ import annotations

import io

import numpy as np
from rich.console import Console

from fedsgt.api.results.serving import Predictions
from fedsgt.cli.views.predictions import ROWS, predictions_table
from fedsgt.serving.predictor import Predictions as FullPredictions


def printed(ids: list[str], names: list[str] | None = None, truth: list[int] | None = None) -> list[str]:
    rows = np.tile(np.array([[0.1, 0.7, 0.2]]), (len(ids), 1))
    full = FullPredictions(tuple(ids), rows, 3, "long", (), (), False)
    console = Console(file=io.StringIO(), width=80, highlight=False)
    predictions_table(Predictions.of(full, names, truth), console)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_record_has_its_label_and_the_next_one() -> None:
    lines = printed(["a.png"], ["cat", "dog", "cow"], [1])
    assert lines[0].split() == ["record", "label", "probability", "next"]
    assert lines[1].split() == ["a.png", "dog", "70.0%", "cow", "20.0%"]
    assert lines[2].startswith("1 record by LongSeq of 0 sequences, ledger position 3; 100.0% right")


def test_long_lists_are_cut_and_odd_names_do_no_harm() -> None:
    lines = printed(["[red]x[/red]\x1b[31m", *map(str, range(ROWS + 4))])
    assert len(lines) == ROWS + 3
    assert lines[1].startswith("[red]x[/red]\\x1b[31m")
    assert lines[-2] == "and 5 more; --json or --jsonl prints all"
