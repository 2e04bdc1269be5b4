"""The kinds of plans by name, behind one call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import factorial, isfinite

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsgt.errors import InputError
from fedsgt.plans.cyclic import first_rotations, iterative_rotations, rotations
from fedsgt.plans.greedy import greedy
from fedsgt.plans.matching import matching
from fedsgt.plans.plan import Plan, check_prior
from fedsgt.plans.trees import tree

Prior = NDArray[np.float64] | None
Maker = Callable[[int, int | None, float | None, Prior, int], Plan]


def make(
    kind: str,
    groups: int,
    budget: int | None = None,
    passes: float | None = None,
    *,
    prior: ArrayLike | None = None,
    seed: int = 0,
) -> Plan:
    """A plan of this kind.

    `budget` limits the number of sequences (for `tree`: the number of rotations whose service it must equal),
    `passes` the training cost in passes over the data; `prior` is the chance of each group to be hit.
    """
    if kind not in KINDS:
        raise InputError(f"plan: {kind!r} is unknown; one of {', '.join(KINDS)}")
    if groups < 1:
        raise InputError(f"groups: {groups} is too few; at least 1 is needed")
    if budget is not None and budget < 1:
        raise InputError(f"budget: {budget} is too few; at least 1 sequence is needed")
    if passes is not None and not isfinite(passes):
        raise InputError(f"passes: {passes} is not a finite number; leave it out for no limit")
    if passes is not None and passes < (groups + 1) / 2:
        raise InputError(
            f"passes: {passes:g} is too little; one order of {groups} groups takes {(groups + 1) / 2:g}"
        )
    return KINDS[kind](groups, budget, passes, None if prior is None else check_prior(prior, groups), seed)


def _rotations(groups: int, budget: int | None, passes: float | None, prior: Prior, seed: int) -> Plan:
    return _fit(partial(rotations, groups), groups, budget, passes, most=groups)


def _first_rotations(groups: int, budget: int | None, passes: float | None, prior: Prior, seed: int) -> Plan:
    return _fit(partial(first_rotations, groups), groups, budget, passes, most=groups)


def _iterative(groups: int, budget: int | None, passes: float | None, prior: Prior, seed: int) -> Plan:
    most = factorial(min(groups, 20))
    return _fit(partial(iterative_rotations, groups), groups, budget, passes, most)


def _matching(groups: int, budget: int | None, passes: float | None, prior: Prior, seed: int) -> Plan:
    return _fit(lambda count: matching(groups, count, prior), groups, budget, passes, most=groups)


def _fit(
    by_budget: Callable[[int], Plan], groups: int, budget: int | None, passes: float | None, most: int
) -> Plan:
    """The plan of this budget, or of as many sequences as the passes allow."""
    if passes is None:
        return by_budget(groups if budget is None else budget)
    most = most if budget is None else min(budget, most)
    count = min(most, int(passes / ((groups + 1) / 2) + 1e-9))
    # Shared prefixes may leave room for more.
    while count < most and by_budget(count + 1).passes <= passes + 1e-9:
        count += 1
    return by_budget(count)


KINDS: dict[str, Maker] = {
    "rotations": _rotations,
    "rotations-first": _first_rotations,
    "iterative-rotations": _iterative,
    "matching": _matching,
    "greedy": lambda groups, budget, passes, prior, seed: greedy(groups, budget, prior, passes),
    "tree": lambda groups, budget, passes, prior, seed: tree(groups, budget, prior, passes, seed=seed),
}
