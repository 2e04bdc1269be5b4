"""Plans built sequence by sequence, each the best that can be added."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsgt.errors import InputError
from fedsgt.plans.plan import Plan, Prefix
from fedsgt.plans.scoring.scores import horizon
from fedsgt.plans.scoring.subsets import (
    LARGEST_EXACT,
    mask_of,
    sizes,
    spread_maximum,
    subset_sums,
    superset_mobius,
    superset_sums,
)
from fedsgt.window import Window

NOTHING = 1e-12  # a gain below this is rounding


def greedy(
    groups: int,
    budget: int | None = None,
    prior: NDArray[np.float64] | None = None,
    passes: float | None = None,
    window: Window = None,
) -> Plan:
    """Add the order with the largest exact gain in mean live groups, until none gains or the budget is spent.

    The gain of an order is the sum of what each of its prefixes adds, so the best order is a longest path
    through the subsets.
    """
    if groups > LARGEST_EXACT:
        raise InputError(f"groups: greedy plans are searched up to {LARGEST_EXACT} groups, not {groups}")
    # With `passes` alone the cost ends the search; this bound only keeps it finite.
    limit = budget if budget is not None else (groups if passes is None else 4 * groups)
    weights = _unhit_weights(groups, prior)
    live = np.zeros(1 << groups, dtype=np.int8)
    paths: list[Prefix] = []
    while len(paths) < limit:
        gains = _gains(live, weights)
        path = _best_order(gains)
        prefixes = [mask_of(path[:depth]) for depth in range(1, groups + 1)]
        longer = Plan.of("greedy", groups, [*paths, path], window)
        # The first sequence is kept whatever it gains: a plan needs one.
        useless = bool(paths) and gains[prefixes].sum() < NOTHING
        if useless or (passes is not None and longer.passes > passes + 1e-9):
            break
        paths.append(path)
        # A new prefix serves every set of unhit groups that holds it.
        live[prefixes] = range(1, groups + 1)
        spread_maximum(live)
    return Plan.of("greedy", groups, paths, window)


def _unhit_weights(groups: int, prior: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Return P(exactly these groups are unhit) for each subset, averaged over the coming requests."""
    chances = np.full(groups, 1 / groups) if prior is None else prior
    misses = np.maximum(1 - subset_sums(chances), 0)
    table: NDArray[np.float64] = np.mean([misses**count for count in horizon(groups)], axis=0)
    superset_mobius(table)
    return np.maximum(table, 0)  # rounding leaves tiny negatives


def _gains(live: NDArray[np.int8], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the gain of training each set: the weight of the outcomes in which it is the longest."""
    groups = live.size.bit_length() - 1
    size = sizes(groups)
    gains = np.zeros(live.size)
    for depth in range(1, groups + 1):
        served_less = np.where(live < depth, weights, 0.0)
        superset_sums(served_less)
        own = size == depth
        gains[own] = served_less[own]
    return gains


def _best_order(gains: NDArray[np.float64]) -> Prefix:
    """Return the longest path from the empty to the full set; on a tie, the lowest group."""
    groups = gains.size.bit_length() - 1
    # Subsets by size, so that each step reads only sets with one group less.
    layers = np.argsort(sizes(groups), kind="stable")
    bounds = np.cumsum(np.bincount(sizes(groups), minlength=groups + 1))
    best = np.zeros(gains.size)
    last = np.zeros(gains.size, dtype=np.int8)
    for depth in range(1, groups + 1):
        masks = layers[bounds[depth - 1] : bounds[depth]]
        before = np.stack([np.where(masks >> g & 1, best[masks & ~(1 << g)], -np.inf) for g in range(groups)])
        last[masks] = before.argmax(axis=0)
        best[masks] = before.max(axis=0) + gains[masks]
    order: list[int] = []
    mask = gains.size - 1
    while mask:
        order.append(int(last[mask]))
        mask &= ~(1 << order[-1])
    return tuple(reversed(order))
