"""Forecast what further requests leave of a run.

A request is taken to hit one group, with a chance in proportion to the records left in it. That describes
requests for records or a slice; a request for a whole client hits every group that the client is in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsgt.plans import Estimate, live_prefix
from fedsgt.plans.plan import Prefix
from fedsgt.plans.scoring.live_part import Chances, chance_alive, cuts, narrowed
from fedsgt.plans.scoring.subsets import LARGEST_EXACT

SAFE = 0.9  # below this chance of still serving it is time to retrain
FARTHEST = 1000  # most requests that are looked ahead for that moment
# Simulated streams of requests, if there are too many groups for an exact expectation; batches bound
# the memory.
STREAMS, BATCH = 20_000, 500


@dataclass(frozen=True)
class FragileGroup:
    """A live group, and the loss if a request hits it."""

    group: int
    modules: int
    """Number of live modules that would die."""
    live_groups: int
    """Number of groups behind the longest prefix that would be left."""
    chance: float
    """Chance that the next request hits this group."""


@dataclass(frozen=True)
class SurvivalForecast:
    """Live part of a run after further requests; the lists begin with 0 further requests."""

    alive: list[Estimate]
    """Chance that something answers: a live module, or the bare backbone with a solved head."""
    some_module: list[Estimate]
    """Chance that a module is live."""
    live_groups: list[Estimate]
    """Expected number of groups behind the longest live prefix."""
    requests_left: float
    """Expected number of requests, up to and with the one that leaves nothing; infinite if none can.

    With solved heads it is infinite, as something answers until the last record is deleted.
    """
    until_no_module: float
    """Expected number of requests, up to and with the one that leaves no module; infinite if none can."""
    unsafe_at: int | None
    """First number of requests after which the chance is below `SAFE`; None if beyond `FARTHEST`."""


def forecast_survival(
    prefixes: Sequence[Prefix], chances: Chances, requests: int, solved: bool = False
) -> SurvivalForecast:
    """Forecast what further requests leave of the live prefixes, exactly or over simulated streams.

    `solved` says that the bare backbone has a solved head, which answers as long as a record is left.
    """
    always = [Estimate(1.0)] * (requests + 1)
    alive = [prefix for prefix in prefixes if prefix]
    if not alive:
        nothing = [Estimate(0.0)] * (requests + 1)
        if solved:
            return SurvivalForecast(always, nothing, nothing, math.inf, 0.0, None)
        return SurvivalForecast(nothing, nothing, nothing, 0.0, 0.0, 0)
    # Something is live as long as the first group of some live prefix is not hit.
    roots, of_roots = narrowed([prefix[:1] for prefix in alive], chances)
    rate = roots.deletion_rate(of_roots)
    # If the chance is at least SAFE for n requests, the expected number is at least SAFE times n: it is
    # enough to look as far as the expected number divided by SAFE.
    farthest = FARTHEST if math.isinf(rate) else min(FARTHEST, math.ceil(rate / SAFE) + 1)
    chance = chance_alive(alive, chances, range(max(requests, farthest) + 1))
    groups = _live_groups(alive, chances, requests)
    if solved:
        return SurvivalForecast(always, chance[: requests + 1], groups, math.inf, rate, None)
    return SurvivalForecast(
        chance[: requests + 1],
        chance[: requests + 1],
        groups,
        rate,
        rate,
        next((count for count, value in enumerate(chance) if value < SAFE), None),
    )


def _live_groups(prefixes: Sequence[Prefix], chances: Chances, requests: int) -> list[Estimate]:
    """Return the expected groups behind the longest live prefix after 0, 1, ... requests."""
    plan, prior = narrowed(prefixes, chances)
    if plan.groups <= LARGEST_EXACT:
        return plan.expected_live(range(requests + 1), prior)
    # The plan's own estimate goes through all its modules. With few requests it is faster to look where
    # each of them cuts each sequence.
    left = np.array([cuts(path, plan.groups) for path in set(plan.sequences)], dtype=np.int16)
    rng = np.random.default_rng(0)  # a fixed seed: the same run gives the same figures
    batches = [rng.choice(plan.groups, size=(BATCH, requests), p=prior) for _ in range(STREAMS // BATCH)]
    longest = np.concatenate(
        [np.minimum.accumulate(left[:, streams], axis=2).max(axis=0) for streams in batches]
    )
    # If all streams agree, the error is not zero but unknown: at most of the order of one stream.
    errors = np.maximum(longest.std(axis=0) / math.sqrt(STREAMS), 1 / STREAMS)
    means = longest.mean(axis=0)
    whole = Estimate(float(max(map(len, prefixes))))
    return [whole, *(Estimate(float(mean), float(error)) for mean, error in zip(means, errors, strict=True))]


def fragile_groups(prefixes: Sequence[Prefix], chances: Chances) -> list[FragileGroup]:
    """Return each live group with the loss if a request hits it, the greatest loss first."""
    nodes = {prefix[:depth] for prefix in prefixes for depth in range(1, len(prefix) + 1)}
    dying: dict[int, int] = {}
    for node in nodes:
        for group in node:
            dying[group] = dying.get(group, 0) + 1
    found = [
        FragileGroup(
            group, count, max(len(live_prefix(prefix, {group})) for prefix in prefixes), float(chances[group])
        )
        for group, count in dying.items()
    ]
    return sorted(found, key=lambda one: (-one.modules, one.live_groups, one.group))
