"""S3T's selector for known deletion priors: one sequence for each first group, grown by matching."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsgt.errors import InputError
from fedsgt.plans.plan import Plan, Prefix
from fedsgt.plans.scoring.scores import horizon
from fedsgt.words import counted


def matching(groups: int, budget: int | None = None, prior: NDArray[np.float64] | None = None) -> Plan:
    """Grow L sequences, one from each group, by one group each at a time; keep the `budget` best.

    A step is a maximum-weight matching of sequences to next groups; a pair weighs the new prefix's length
    times the chance that it is alive, averaged over the coming requests. A matching always exists: after n
    steps each group stands in exactly n sequences, so each has equally many left to choose from.
    """
    from scipy.optimize import linear_sum_assignment  # half a second to import, seldom needed

    budget = groups if budget is None else budget
    if budget > groups:
        raise InputError(
            f"budget: matching gives at most {counted(groups, 'sequence')}, one for each group, not {budget}"
        )
    chances = np.full(groups, 1 / groups) if prior is None else prior
    paths: list[Prefix] = [(group,) for group in range(groups)]
    for _ in range(groups - 1):
        rows, columns = linear_sum_assignment(_step_weights(paths, chances), maximize=True)
        paths = [(*paths[row], int(column)) for row, column in zip(rows, columns, strict=True)]
    # `sorted` is stable: on a tie the sequence of the lower first group is kept.
    best = sorted(range(groups), key=lambda index: -_value(paths[index], chances))[:budget]
    return Plan.of("matching", groups, [paths[index] for index in best])


def _step_weights(paths: list[Prefix], chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weight of each sequence (row) with each next group (column)."""
    weights = np.empty((len(paths), len(chances)))
    for row, path in enumerate(paths):
        used = list(path)
        weights[row] = (len(path) + 1) * _alive(chances[used].sum() + chances, len(chances))
        # A sequence never takes a group twice.
        weights[row, used] = -np.inf
    return weights


def _value(path: Prefix, chances: NDArray[np.float64]) -> float:
    """Return the expected live groups of this sequence alone, averaged over the coming requests."""
    return float(_alive(np.cumsum(chances[list(path)]), len(chances)).sum())


def _alive(hit: NDArray[np.float64], groups: int) -> NDArray[np.float64]:
    """Return the chance that no request hits a set of this probability, averaged over the coming requests."""
    alive: NDArray[np.float64] = np.mean(
        [np.maximum(1 - hit, 0) ** count for count in horizon(groups)], axis=0
    )
    return alive
