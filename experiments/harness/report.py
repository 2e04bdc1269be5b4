"""Report of an experiment: its tables, plots, and claims with verdicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from experiments.harness.statistics import Mean

SEEDS = 5  # at least, for a claim


@dataclass(frozen=True)
class Table:
    """Table of the README."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        lines = [f"**{self.title}**", "", _row(self.head), _row(["---"] * len(self.head))]
        return "\n".join([*lines, *map(_row, self.rows)])


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, or of ours, with the measurements and the verdict of our runs."""

    claim: str
    paper: str
    """Numbers that the paper reports."""
    ours: str
    verdict: str
    """`holds`, `does not hold`, `in part` or `not decided`."""


@dataclass(frozen=True)
class Plot:
    """A picture: its name, and the function that draws it into a file."""

    name: str
    caption: str
    draw: Callable[[Path], None]


@dataclass(frozen=True)
class Report:
    tables: Sequence[Table] = ()
    plots: Sequence[Plot] = ()
    claims: Sequence[Claim] = field(default_factory=list)


def verdict(difference: Mean, least: float = 0.0, equal: float | None = None) -> str:
    """Return the verdict on a difference: above `least`, or within `equal` of zero if that is given.

    Decided by the whole interval, and not decided when that lies on both sides, or with too few seeds.
    """
    if difference.count < SEEDS:
        return "not decided"
    if equal is not None:
        inside = -equal <= difference.low and difference.high <= equal
        outside = difference.low > equal or difference.high < -equal
        return "holds" if inside else "does not hold" if outside else "not decided"
    return (
        "holds" if difference.low > least else "does not hold" if difference.high < least else "not decided"
    )


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
