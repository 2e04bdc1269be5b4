"""A classification head solved from statistics: ridge regression on labels (definition 10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsgt.errors import InputError
from fedsgt.stack.statistics import Statistic, unit

Floats: TypeAlias = NDArray[np.float64]

RIDGES: tuple[float, ...] = tuple(10.0 ** (step / 4) for step in range(-12, 29))
"""Strengths among which cross-validation chooses: a fixed list, so that the choice can be repeated."""
SHARPNESS = 8.0  # scores of a ridge classifier lie between 0 and 1, too close for a softmax


@dataclass(frozen=True, eq=False)
class SolvedHead:
    """Weights from features, and a 1, to a score for each label."""

    weights: Floats
    """A row for each feature, the last one for the 1, and a column for each label."""
    ridge: float
    """Strength of the penalty on weights."""

    def probabilities(self, features: NDArray[np.floating[Any]]) -> Floats:
        """Return class probabilities of records with these features, a row for each."""
        scores = SHARPNESS * (features.astype(np.float64) @ self.weights[:-1] + self.weights[-1])
        raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def solve(total: Statistic, ridge: float | None = None) -> SolvedHead:
    """Solve (G + ridge I) W = C; generalised cross-validation chooses `ridge` unless it is given.

    Columns of C are scaled so that a rare label counts as much as a frequent one.
    """
    if not total.records:
        raise InputError("no record is left to solve a head from")
    one = unit(total.bits)
    # Integers first, so that features of any width are rounded once.
    values, vectors = np.linalg.eigh(total.full_gram() / one**2)
    values = np.maximum(values, 0.0)  # rounding may leave the smallest a little below zero
    counts, scales = _balance(total)
    turned = vectors.T @ (total.cross / one * scales)
    if ridge is None:
        ridge = _cross_validated(values, turned, total.records, float((counts * scales**2).sum()))
    return SolvedHead(vectors @ (turned / (values + ridge)[:, None]), ridge)


def _balance(total: Statistic) -> tuple[Floats, Floats]:
    """Return how many records each label has, and what its column is scaled by: 1 where all are even."""
    # The 1 that is appended to the features counts them.
    counts = total.cross[-1] / unit(total.bits)
    even = total.records / len(counts)
    return counts, np.sqrt(np.divide(even, counts, out=np.zeros_like(counts), where=counts > 0))


def _cross_validated(values: Floats, turned: Floats, records: int, targets: float) -> float:
    """Return the strength with the smallest generalised cross-validation error.

    `targets` is the sum of the targets' squares.
    """
    squares = np.square(turned).sum(axis=1)

    def error(ridge: float) -> float:
        shrunk = values + ridge
        residual = targets - float((squares * (values + 2 * ridge) / shrunk**2).sum())
        freedom = records - float((values / shrunk).sum())
        return max(residual, 0.0) / freedom**2

    # The first of equals, in the order of the list.
    return min(RIDGES, key=error)
