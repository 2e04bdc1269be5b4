"""Verdicts of claims that are about several numbers, or about exact ones."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.harness.report import verdict
from experiments.harness.statistics import Mean


def together(differences: Sequence[Mean], least: float = 0.0, equal: float | None = None) -> str:
    """Return the verdict on a claim about all these differences; `in part` if it holds for some only."""
    found = {verdict(difference, least, equal) for difference in differences}
    if len(found) == 1:
        return found.pop()
    if "does not hold" in found:
        return "in part" if "holds" in found else "does not hold"
    return "not decided"


def exactly(true: bool) -> str:
    """Return the verdict on a claim that is computed, not measured."""
    return "holds" if true else "does not hold"
