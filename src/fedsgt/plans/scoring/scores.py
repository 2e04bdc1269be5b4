"""Exact scores of a plan under a stream of independent requests.

Let A be the groups that were not hit, and f(A) the groups behind the longest prefix within A. Written as
f(A) = sum of c(B) over B within A, its expectation needs only P(nothing in B was hit), which is a power for
independent requests: E[f] = sum of c(B) P(B unhit). The same coefficients serve every prior and every stream.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import comb
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedsgt.plans.scoring.montecarlo import Curves, Estimate, independent_hits, simulate
from fedsgt.plans.scoring.subsets import LARGEST_EXACT, mobius, sizes, spread_maximum, subset_sums

if TYPE_CHECKING:
    from fedsgt.plans.plan import Plan

# Estimates for a list of numbers of requests.
Curve = Callable[[list[int]], list[Estimate]]
# The chance of each group to be hit by a request; None is uniform.
Prior = NDArray[np.float64] | None


def horizon(groups: int) -> range:
    """Return the numbers of requests that searches average over: 1..15 at ten groups, else in proportion."""
    return range(1, max(2, round(1.5 * groups)) + 1)


def live_table(plan: Plan) -> NDArray[np.int8]:
    """Return the length of the longest prefix within each set of unhit groups."""
    # Lengths are at most 20, so one byte each is enough.
    table = np.zeros(1 << plan.groups, dtype=np.int8)
    for mask, size in plan.sets.items():
        table[mask] = size
    spread_maximum(table)
    return table


@dataclass(frozen=True)
class Expansion:
    """The nonzero coefficients c(B) of a plan."""

    masks: NDArray[np.int64]
    """Sets B as bit masks."""
    live: NDArray[np.int64]
    """Coefficients of the number of live groups."""
    alive: NDArray[np.int64]
    """Coefficients of whether some module is live."""


@lru_cache(maxsize=8)  # up to 25 MB each
def expansion(plan: Plan) -> Expansion:
    """Expand a plan of at most 20 groups over the subsets, in O(L 2^L)."""
    live = live_table(plan).astype(np.int64)
    alive = (live > 0).astype(np.int64)
    mobius(live)
    mobius(alive)
    masks = np.flatnonzero((live != 0) | (alive != 0))
    return Expansion(masks, live[masks], alive[masks])


@lru_cache(maxsize=128)
def _live_by_size(plan: Plan) -> tuple[int, ...]:
    """Return the sum of c(B) over the subsets of each size, which is all that a uniform prior needs."""
    terms = expansion(plan)
    totals = np.zeros(plan.groups + 1, dtype=np.int64)
    np.add.at(totals, sizes(plan.groups)[terms.masks], terms.live)
    return tuple(int(total) for total in totals)


def expected_live(plan: Plan, requests: list[int], prior: Prior) -> list[Estimate]:
    """Return E[f] after each number of requests."""
    if plan.groups > LARGEST_EXACT:
        return _simulated(plan, requests, prior).live
    if prior is None:
        return [Estimate(float(uniform_live(plan, count))) for count in requests]
    terms = expansion(plan)
    unhit = 1 - subset_sums(prior)[terms.masks]
    return [Estimate(value) for value in _power_sums(terms.live, unhit, requests)]


def uniform_live(plan: Plan, requests: int) -> Fraction:
    """Return E[f] under uniform requests as an exact rational."""
    groups, totals = plan.groups, _live_by_size(plan)
    # Whole numbers until the end: one division, so nothing is rounded.
    scaled = sum(total * (groups - size) ** requests for size, total in enumerate(totals))
    return Fraction(scaled, groups**requests)


def survival(plan: Plan, requests: list[int], prior: Prior) -> list[Estimate]:
    """Return P(some root unhit) by inclusion and exclusion over the roots."""
    if prior is None:
        return [Estimate(float(_uniform_survival(plan.groups, len(plan.roots), count))) for count in requests]
    if len(plan.roots) > LARGEST_EXACT:
        return _simulated(plan, requests, prior).alive
    hit, signs = _roots_expanded(plan, prior)
    chances = _power_sums(signs, 1 - hit, requests)
    return [Estimate(min(max(chance, 0.0), 1.0)) for chance in chances]  # rounding may leave 0..1


def _simulated(plan: Plan, requests: list[int], prior: Prior) -> Curves:
    """Estimate the curves of a plan that is too large for a table over subsets."""
    draw = independent_hits(plan.groups, max(requests, default=0), prior)
    return simulate(plan, requests, draw)


def deletion_rate(plan: Plan, prior: Prior) -> float:
    """Return the expected request at which the last root is hit."""
    roots = len(plan.roots)
    if prior is None:
        return float(sum(Fraction(plan.groups, root) for root in range(1, roots + 1)))
    chances = prior[list(plan.roots)]
    # A root that no request hits keeps the plan alive for ever.
    if (chances == 0).any():
        return float("inf")
    if roots > LARGEST_EXACT:
        return _last_arrival(chances)
    hit, signs = _roots_expanded(plan, prior)
    return float((signs / hit).sum())


def _uniform_survival(groups: int, roots: int, requests: int) -> Fraction:
    """Return P(some root unhit) under uniform requests as an exact rational."""
    terms = ((-1) ** (j + 1) * comb(roots, j) * (groups - j) ** requests for j in range(1, roots + 1))
    return Fraction(sum(terms), groups**requests)


def _roots_expanded(
    plan: Plan, prior: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the chance that a request hits each nonempty set of roots, and the sign of each set."""
    roots = list(plan.roots)
    hit = subset_sums(prior[roots])[1:]
    # Inclusion and exclusion: odd sets of roots count positive, even ones negative.
    signs = np.where(sizes(len(roots))[1:] % 2 == 1, 1.0, -1.0)
    return hit, signs


def _power_sums(
    weights: NDArray[np.int64] | NDArray[np.float64], unhit: NDArray[np.float64], counts: list[int]
) -> list[float]:
    """Return the sum of weights times unhit**count for each count; each power continues the one before."""
    # A set that every request hits is unhit with chance 0, which rounding may turn negative.
    base, factors = np.maximum(unhit, 0.0), weights.astype(np.float64)
    power, at, sums = np.ones_like(base), 0, dict[int, float]()
    for count in sorted(set(counts)):
        power *= base if count == at + 1 else base ** (count - at)
        sums[count], at = float(factors @ power), count
    return [sums[count] for count in counts]


def _last_arrival(chances: NDArray[np.float64]) -> float:
    """Return the expectation as that of the maximum of independent exponentials, without 2^roots terms."""
    from scipy.integrate import quad  # half a second to import, seldom needed

    # Times are in units of the rarest root, so that the integrand has about the same width for every prior.
    scale = 1 / chances.min()
    value, _ = quad(lambda t: -np.expm1(np.log1p(-np.exp(-chances * t * scale)).sum()), 0, np.inf, limit=500)
    return float(value * scale)
