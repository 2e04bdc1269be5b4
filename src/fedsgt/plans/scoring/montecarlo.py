"""Simulated requests: for plans with too many groups for exact scores, and streams with no closed form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fedsgt.plans.plan import Plan

# A probability then has a standard error of at most 0.004; batches bound the memory.
TRIALS = 20_000
BATCH = 500

# The request that first hits each group (column) in each trial (row).
Hits = NDArray[np.int64]
# Draws the first hits of so many trials.
Draw = Callable[[np.random.Generator, int], Hits]


class Estimate(float):
    """A number with its standard error; zero means that the number was computed exactly."""

    stderr: float

    def __new__(cls, value: float, stderr: float = 0.0) -> Estimate:
        number = super().__new__(cls, value)
        number.stderr = stderr
        return number

    @property
    def exact(self) -> bool:
        """Whether the number was computed exactly."""
        return self.stderr == 0.0

    def __repr__(self) -> str:
        return float.__repr__(self) if self.exact else f"{float(self):.5g}±{self.stderr:.1g}"

    __str__ = __repr__


@dataclass(frozen=True)
class Curves:
    """Service of a plan after each number of requests."""

    live: list[Estimate]
    """Expected groups behind the longest live prefix."""
    alive: list[Estimate]
    """Probability that some module is live."""
    rate: Estimate
    """Sum of `alive`: if the curve starts at no request and ends at zero, the expected exhausting request."""


def simulate(plan: Plan, requests: Sequence[int], draw: Draw) -> Curves:
    """Simulate streams of requests and return what they leave of a plan."""
    rng = np.random.default_rng(0)  # fixed, so that a score does not change from call to call
    live = _Mean(len(requests))
    alive = _Mean(len(requests))
    rate = _Mean(1)
    for _ in range(TRIALS // BATCH):
        falls = depth_falls(plan, draw(rng, BATCH))
        depth = np.stack([(falls > count).sum(axis=1) for count in requests])
        live.add(depth)
        alive.add(depth > 0)
        rate.add((depth > 0).sum(axis=0, keepdims=True))
    # Before the first request everything is live, whatever the draw.
    certain = np.array(requests) == 0
    return Curves(
        live.estimates(certain), alive.estimates(certain), rate.estimates(certain.all(keepdims=True))[0]
    )


class _Mean:
    """Running means over trials, with their standard errors."""

    def __init__(self, length: int) -> None:
        self.trials = 0
        self.sums = np.zeros((2, length))

    def add(self, values: NDArray[np.generic]) -> None:
        """Add the values of a batch: a row for each mean, a column for each trial."""
        numbers = values.astype(np.float64)
        self.trials += numbers.shape[1]
        self.sums += numbers.sum(axis=1), (numbers**2).sum(axis=1)

    def estimates(self, certain: NDArray[np.bool_]) -> list[Estimate]:
        """Return the means; only those marked certain have no standard error, however little they varied."""
        means, squares = self.sums / self.trials
        errors = np.sqrt(np.maximum(squares - means**2, 0) / self.trials)
        errors = np.where(certain, 0.0, np.maximum(errors, 1 / self.trials))
        return [Estimate(float(mean), float(error)) for mean, error in zip(means, errors, strict=True)]


def independent_hits(groups: int, requests: int, prior: NDArray[np.float64] | None) -> Draw:
    """Return a draw of requests that hit one group each, by the prior.

    A group that no request hits has the number one past the last request.
    """

    def draw(rng: np.random.Generator, trials: int) -> Hits:
        """Draw the first hit of each group in so many trials."""
        stream = rng.choice(groups, size=(trials, requests), p=prior)
        hits = np.full((trials, groups), requests + 1, dtype=np.int64)
        rows = np.arange(trials)
        # Backwards, so that the earliest hit of a group is the one that stays.
        for request in range(requests, 0, -1):
            hits[rows, stream[:, request - 1]] = request
        return hits

    return draw


def depth_falls(plan: Plan, hits: Hits) -> NDArray[np.int64]:
    """Return the request at which the last module of each depth dies, for each trial."""
    deepest = max((module.depth for module in plan.modules), default=0)
    falls = np.zeros((hits.shape[0], deepest), dtype=np.int64)
    dies: list[NDArray[np.int64]] = []
    for module in plan.modules:
        own = hits[:, module.group]
        # A module dies with the first hit on any group of its prefix.
        dies.append(own if module.parent < 0 else np.minimum(own, dies[module.parent]))
        column = falls[:, module.depth - 1]
        np.maximum(column, dies[-1], out=column)
    return falls
