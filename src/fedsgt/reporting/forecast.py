"""What further requests do to what is live of a run: numbers only.

A request is taken to hit one group, with a chance in proportion to the records that are left in it. That is
a request for records or for a slice; one for a whole client hits every group that the client is in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsgt.plans import Estimate, Plan, live_prefix
from fedsgt.plans.plan import Prefix
from fedsgt.plans.scoring.subsets import LARGEST_EXACT
from fedsgt.runs.state import Live
from fedsgt.unlearning.request import records_left

Chances = NDArray[np.float64]
# Below this chance of still serving it is time to retrain.
SAFE = 0.9
FARTHEST = 1000  # requests that are looked ahead for that moment
STREAMS, BATCH = 20_000, 500  # simulated, where there are too many groups for an exact expectation
TRIALS = 400  # streams of requests that expected accuracies are the mean of


@dataclass(frozen=True)
class FragileGroup:
    """What the loss of one group would take."""

    group: int
    modules: int
    """Live modules that would die."""
    live_groups: int
    """Groups behind the longest prefix that would be left."""
    chance: float
    """That the next request hits this group."""


@dataclass(frozen=True)
class SurvivalForecast:
    """By number of further requests, from 0: P(something is live), and E[live groups of the longest prefix].

    A request hits one group, with a chance in proportion to the records that are left in it.
    """

    alive: list[Estimate]
    live_groups: list[Estimate]
    requests_left: float
    """Expected number up to and with the one that leaves nothing; infinite if none can."""
    unsafe_at: int | None
    """The first number of requests after which P(alive) is below 90 %; none if it is beyond 1000."""


def request_chances(live: Live) -> Chances:
    """For each group, that the next request hits it: its share of the records that are left."""
    left = np.zeros(live.description.groups)
    for number, groups in enumerate(live.description.groups_of):
        for records, group in zip(records_left(live, number), groups, strict=True):
            left[group] += records
    total = left.sum()
    return left / total if total else np.full(len(left), 1 / len(left))


def forecast_survival(prefixes: Sequence[Prefix], odds: Chances, requests: int) -> SurvivalForecast:
    """What further requests do to these live prefixes, exactly, or as a mean over simulated streams."""
    alive = [prefix for prefix in prefixes if prefix]
    if not alive:
        nothing = [Estimate(0.0)] * (requests + 1)
        return SurvivalForecast(nothing, nothing, 0.0, 0)
    roots, of_roots = _narrowed([prefix[:1] for prefix in alive], odds)
    rate = roots.deletion_rate(of_roots)
    # P(alive) is at least 90 % up to there, so that the expectation is at least 0.9 times as much.
    farthest = FARTHEST if math.isinf(rate) else min(FARTHEST, math.ceil(rate / SAFE) + 1)
    chance = roots.survival(range(max(requests, farthest) + 1), of_roots)
    return SurvivalForecast(
        chance[: requests + 1],
        _live_groups(alive, odds, requests),
        rate,
        next((count for count, value in enumerate(chance) if value < SAFE), None),
    )


def _live_groups(prefixes: Sequence[Prefix], odds: Chances, requests: int) -> list[Estimate]:
    plan, prior = _narrowed(prefixes, odds)
    if plan.groups <= LARGEST_EXACT:
        return plan.expected_live(range(requests + 1), prior)
    # The plan's own estimate goes through all its modules; for a few requests it is enough to look where
    # they cut each sequence.
    cuts = np.array([_cuts(path, plan.groups) for path in set(plan.sequences)], dtype=np.int16)
    rng = np.random.default_rng(0)
    batches = [rng.choice(plan.groups, size=(BATCH, requests), p=prior) for _ in range(STREAMS // BATCH)]
    longest = np.concatenate(
        [np.minimum.accumulate(cuts[:, streams], axis=2).max(axis=0) for streams in batches]
    )
    errors = np.maximum(longest.std(axis=0) / math.sqrt(STREAMS), 1 / STREAMS)
    means = longest.mean(axis=0)
    whole = Estimate(float(max(map(len, prefixes))))
    return [whole, *(Estimate(float(mean), float(error)) for mean, error in zip(means, errors, strict=True))]


def _cuts(path: Prefix, groups: int) -> list[int]:
    """For each group, how much of the path is left when it is hit."""
    left = [len(path)] * groups
    for depth, group in enumerate(path):
        left[group] = depth
    return left


def fragile_groups(prefixes: Sequence[Prefix], odds: Chances) -> list[FragileGroup]:
    """What each live group's loss would take, the most first."""
    nodes = {prefix[:depth] for prefix in prefixes for depth in range(1, len(prefix) + 1)}
    dying: dict[int, int] = {}
    for node in nodes:
        for group in node:
            dying[group] = dying.get(group, 0) + 1
    found = [
        FragileGroup(
            group, count, max(len(live_prefix(prefix, {group})) for prefix in prefixes), float(odds[group])
        )
        for group, count in dying.items()
    ]
    return sorted(found, key=lambda one: (-one.modules, one.live_groups, one.group))


def expected_accuracy(
    prefixes: Sequence[Prefix],
    odds: Chances,
    requests: int,
    score: Callable[[tuple[Prefix, ...]], float | None],
) -> list[Estimate | None]:
    """E[accuracy, given that something is live] after 1, 2, ... further requests; none if nothing can be.

    `score` gives the accuracy when these are the live parts of the sequences.
    """
    rng = np.random.default_rng(0)  # the same page every time
    streams = rng.choice(len(odds), size=(TRIALS, requests), p=odds)
    known: dict[tuple[Prefix, ...], float | None] = {}

    def after(hits: frozenset[int]) -> float | None:
        left = tuple(live_prefix(prefix, hits) for prefix in prefixes)
        if left not in known:
            known[left] = score(left)
        return known[left]

    found = list[Estimate | None]()
    for count in range(1, requests + 1):
        values = [after(frozenset(stream[:count].tolist())) for stream in streams]
        alive = np.array([value for value in values if value is not None])
        error = max(float(alive.std()), 1 / TRIALS) / math.sqrt(len(alive)) if len(alive) else 0.0
        found.append(Estimate(float(alive.mean()), error) if len(alive) else None)
    return found


def _narrowed(paths: Sequence[Prefix], odds: Chances) -> tuple[Plan, Chances]:
    """The plan over its own groups, all others taken as one: fewer groups can be scored exactly."""
    groups = sorted({group for path in paths for group in path})
    number = {group: index for index, group in enumerate(groups)}
    elsewhere = float(np.delete(odds, groups).sum())
    prior = np.array([*odds[groups], elsewhere] if elsewhere else odds[groups])
    return Plan.of("live", len(prior), ([number[group] for group in path] for path in paths)), prior
