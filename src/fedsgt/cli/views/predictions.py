"""Predictions as a short table on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedsgt.words import counted, printable

if TYPE_CHECKING:
    from fedsgt.api.results.serving import Prediction, Predictions

ROWS = 20  # more would scroll away


def predictions_table(found: Predictions, console: Console | None = None) -> None:
    """Print the first records with their labels, and what answered."""
    console = console or Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("record", "label"):
        table.add_column(name, overflow="ellipsis", no_wrap=True)
    table.add_column("probability", justify="right")
    table.add_column("next", overflow="ellipsis", no_wrap=True)
    for answer in found[:ROWS]:
        sure = f"{answer.probability:.1%}"
        # Texts, not markup: ids and labels come from outside.
        table.add_row(Text(printable(answer.id)), Text(_named(answer, answer.label)), sure, _second(answer))
    console.print(table)
    if len(found) > ROWS:
        console.print(f"and {len(found) - ROWS} more; --json or --jsonl prints all", style="dim")
    console.print(Text(_by(found), "dim"))


def _named(answer: Prediction, label: int) -> str:
    return printable(str(label) if answer.names is None else answer.names[label])


def _second(answer: Prediction) -> Text:
    """Return the second best label, which tells how sure the answer is."""
    others = [label for label in range(len(answer.probabilities)) if label != answer.label]
    label = max(others, key=lambda one: answer.probabilities[one])
    return Text(f"{_named(answer, label)} {answer.probabilities[label]:.1%}", "dim")


def _by(found: Predictions) -> str:
    right = ""
    if found.accuracy is not None:
        one = found.accuracy
        right = f"; {one.accuracy:.1%} right (95 % interval {one.low:.1%} to {one.high:.1%})"
    return f"{counted(len(found), 'record')} by {found.by()}, ledger position {found.position}{right}"
