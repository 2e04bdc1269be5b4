"""Forecasts for what is live of a plan: whether something stays live, and with which accuracy.

A request is taken to hit one group, independently of those before it; `chances` has the chance of each group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from fedsgt.plans.plan import Plan, Prefix
from fedsgt.plans.scoring.montecarlo import Estimate

Chances = NDArray[np.float64]
Score = Callable[[tuple[Prefix, ...]], float | None]
TRIALS = 400  # streams of requests whose mean is an expected accuracy
FEWEST_TRIALS = 25  # a mean of fewer says too little to be told


def narrowed(paths: Sequence[Prefix], chances: Chances) -> tuple[Plan, Chances]:
    """Return a plan of only the groups in these paths, with all other groups taken as one.

    A plan of fewer groups can be scored exactly.
    """
    groups = sorted({group for path in paths for group in path})
    number = {group: index for index, group in enumerate(groups)}
    elsewhere = float(np.delete(chances, groups).sum())
    prior = np.array([*chances[groups], elsewhere] if elsewhere else chances[groups])
    return Plan.of("live", len(prior), ([number[group] for group in path] for path in paths)), prior


def chance_alive(prefixes: Sequence[Prefix], chances: Chances, requests: Sequence[int]) -> list[Estimate]:
    """Return the chance that something is live after each of these numbers of further requests."""
    # Something is live as long as the first group of some live prefix is not hit.
    roots = [prefix[:1] for prefix in prefixes if prefix]
    if not roots:
        return [Estimate(0.0) for _ in requests]
    plan, prior = narrowed(roots, chances)
    return plan.survival(requests, prior)


def expected_accuracy(
    prefixes: Sequence[Prefix], chances: Chances, requests: int, score: Score, most_scores: int
) -> list[Estimate | None]:
    """Return the expected accuracy after 1, 2, ... further requests, given that something is live then.

    `score` returns the accuracy with the given live parts of the sequences, None if all are empty. It is
    called at most `most_scores` times; the list is empty if that is too little. An entry is None if nothing
    was live in any stream. After one request the expectation is exact, after more it is simulated.
    """
    left = np.array([cuts(path, len(chances)) for path in prefixes], dtype=np.int32)
    rng = np.random.default_rng(0)  # a fixed seed: the same run gives the same figures
    streams = rng.choice(len(chances), size=(TRIALS, requests), p=chances)
    # What each sequence has left after each request of each stream: trials x requests x sequences.
    depths = np.minimum.accumulate(left[:, streams], axis=2).transpose(1, 2, 0).copy()
    singles = np.ascontiguousarray(left.T)
    trials = TRIALS
    while trials >= FEWEST_TRIALS and len(_distinct(singles, depths[:trials])) > most_scores:
        trials //= 2
    if trials < FEWEST_TRIALS:
        return []
    known = {
        code: score(tuple(path[:depth] for path, depth in zip(prefixes, state, strict=True)))
        for code, state in _distinct(singles, depths[:trials]).items()
    }
    first = [(float(chance), known[state.tobytes()]) for chance, state in zip(chances, singles, strict=True)]
    found = [_mean(first, exact=True)]
    for count in range(1, requests):
        found.append(_mean([(1.0, known[state.tobytes()]) for state in depths[:trials, count]], exact=False))
    return found


def cuts(path: Prefix, groups: int) -> list[int]:
    """Return, for each group, how many modules of the path are left when it is hit."""
    left = [len(path)] * groups
    for depth, group in enumerate(path):
        left[group] = depth
    return left


def _distinct(singles: NDArray[np.int32], depths: NDArray[np.int32]) -> dict[bytes, list[int]]:
    """Return each different state that a request or a stream leaves, by its bytes: many leave the same."""
    # The first request of a stream leaves what a single request leaves.
    states = [*singles, *depths[:, 1:].reshape(-1, singles.shape[1])]
    return {state.tobytes(): state.tolist() for state in states}


def _mean(weighted: Sequence[tuple[float, float | None]], exact: bool) -> Estimate | None:
    """Return the weighted mean of the values that are there; None if there is none."""
    alive = [(weight, value) for weight, value in weighted if value is not None and weight]
    if not alive:
        return None
    weights, values = np.array(alive).T
    mean = float(weights @ values / weights.sum())
    # If all streams agree, the error is not zero but unknown: at most of the order of one stream.
    error = 0.0 if exact else max(float(values.std()), 1 / len(weighted)) / math.sqrt(len(alive))
    return Estimate(mean, error)
