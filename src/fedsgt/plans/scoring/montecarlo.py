"""Estimates for plans with too many groups for a table over subsets, and for streams with no closed form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedsgt.plans.scoring.estimate import Estimate

if TYPE_CHECKING:
    from fedsgt.plans.plan import Plan

TRIALS = 20_000
BATCH = 500

Hits = NDArray[np.int64]  # which request first hits each group (column) in each trial (row)
Draw = Callable[[np.random.Generator, int], Hits]


@dataclass(frozen=True)
class Curves:
    """For each number of requests: the live groups of the longest prefix, and P(something is live).

    `rate` is the sum of the latter: from no request on, and if nothing outlives the last one, it is the
    expected request at which all service ends.
    """

    live: list[Estimate]
    alive: list[Estimate]
    rate: Estimate


def simulate(plan: Plan, requests: Sequence[int], draw: Draw) -> Curves:
    """What simulated streams do to a plan."""
    rng = np.random.default_rng(0)  # a score must not change from call to call
    live = _Mean(len(requests))
    alive = _Mean(len(requests))
    rate = _Mean(1)
    for _ in range(TRIALS // BATCH):
        falls = depth_falls(plan, draw(rng, BATCH))
        depth = np.stack([(falls > count).sum(axis=1) for count in requests])
        live.add(depth)
        alive.add(depth > 0)
        rate.add((depth > 0).sum(axis=0, keepdims=True))
    certain = np.array(requests) == 0
    return Curves(
        live.estimates(certain), alive.estimates(certain), rate.estimates(certain.all(keepdims=True))[0]
    )


class _Mean:
    def __init__(self, length: int) -> None:
        self.trials = 0
        self.sums = np.zeros((2, length))

    def add(self, values: NDArray[np.generic]) -> None:
        numbers = values.astype(np.float64)
        self.trials += numbers.shape[1]
        self.sums += numbers.sum(axis=1), (numbers**2).sum(axis=1)

    def estimates(self, certain: NDArray[np.bool_]) -> list[Estimate]:
        """Means with their standard errors; what was not seen to vary is still only certain if said so."""
        means, squares = self.sums / self.trials
        errors = np.sqrt(np.maximum(squares - means**2, 0) / self.trials)
        errors = np.where(certain, 0.0, np.maximum(errors, 1 / self.trials))
        return [Estimate(float(mean), float(error)) for mean, error in zip(means, errors, strict=True)]


def independent_hits(groups: int, requests: int, prior: NDArray[np.float64] | None) -> Draw:
    """Requests that hit one group each, drawn by the prior; one past the last request where none hits."""

    def draw(rng: np.random.Generator, trials: int) -> Hits:
        stream = rng.choice(groups, size=(trials, requests), p=prior)
        hits = np.full((trials, groups), requests + 1, dtype=np.int64)
        rows = np.arange(trials)
        for request in range(requests, 0, -1):
            hits[rows, stream[:, request - 1]] = request
        return hits

    return draw


def depth_falls(plan: Plan, hits: Hits) -> NDArray[np.int64]:
    """The request at which the last module of each depth dies: after r requests, those above r are served."""
    deepest = max(module.depth for module in plan.modules)
    falls = np.zeros((hits.shape[0], deepest), dtype=np.int64)
    dies: list[NDArray[np.int64]] = []
    for module in plan.modules:
        own = hits[:, module.group]
        dies.append(own if module.parent < 0 else np.minimum(own, dies[module.parent]))
        column = falls[:, module.depth - 1]
        np.maximum(column, dies[-1], out=column)
    return falls
