"""Make a plan by the name of its kind; the room's one entry point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import factorial, isfinite
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsgt.errors import InputError
from fedsgt.plans.cyclic import first_rotations, iterative_rotations, rotations
from fedsgt.plans.greedy import greedy
from fedsgt.plans.matching import matching
from fedsgt.plans.plan import NO_MODULES, Plan, check_prior
from fedsgt.plans.tree.search import Progress, ignore, tree
from fedsgt.window import Window, order_passes
from fedsgt.words import counted


@dataclass(frozen=True, eq=False)
class Wanted:
    """The requirements of a plan, checked."""

    groups: int
    budget: int | None
    passes: float | None
    prior: NDArray[np.float64] | None
    seed: int
    progress: Progress
    window: Window

    def fits(self, plan: Plan) -> bool:
        """Whether the plan costs no more than the passes allow."""
        # The tolerance forgives rounding in the division.
        return self.passes is None or plan.with_window(self.window).passes <= self.passes + 1e-9


def make(
    kind: str,
    groups: int,
    budget: int | None = None,
    passes: float | None = None,
    prior: ArrayLike | None = None,
    seed: int = 0,
    progress: Progress = ignore,
    shards: int = 1,
    window: Window = None,
) -> Plan:
    """Make a plan of this kind.

    `budget` limits the number of sequences (for `tree`: the rotations that it must be as good as),
    `passes` the training cost in passes over the data; `prior` is the chance of each group to be hit. A long
    search calls `progress` with the share that is done. With several `shards` the groups are cut into so many
    consecutive parts, nearly equal, and each part has a plan of its own, with this budget. With a `window` a
    module costs no more than so many groups, or than its own.
    """
    if kind not in KINDS:
        raise InputError(f"plan: {kind!r} is unknown; one of {', '.join(KINDS)}")
    _check_count("groups", groups)
    if budget is not None:
        _check_count("budget", budget)
    _check_count("shards", shards)
    if window is not None and window != "own":
        _check_count("window", window)
    if shards > groups:
        raise InputError(f"shards: {shards} for {counted(groups, 'group')}; at most one for each group")
    # The largest shard needs most passes for one order of its groups.
    _check_passes(-(-int(groups) // int(shards)), passes, window)
    chances = None if prior is None else check_prior(prior, groups)
    wanted = Wanted(int(groups), budget, passes, chances, seed, progress, window)
    plan = KINDS[kind](wanted) if shards == 1 else _sharded(kind, wanted, int(shards))
    return plan.with_window(window)


def _check_count(name: str, count: int) -> None:
    """Check that the count is a whole number of at least 1."""
    if not isinstance(count, Integral) or isinstance(count, bool):
        raise InputError(f"{name}: {count!r} is not a whole number")
    if count < 1:
        raise InputError(f"{name}: {count} is too few; at least 1 is needed")


def _check_passes(groups: int, passes: float | None, window: Window) -> None:
    """Check that the passes allow for one order of all groups."""
    least = order_passes(groups, window)
    if passes is not None and not (isinstance(passes, Real) and isfinite(passes)):
        raise InputError(f"passes: {passes} is not a finite number of passes; leave it out for no limit")
    if passes is not None and passes < least:
        raise InputError(
            f"passes: {passes:g} is too little; one order of {counted(groups, 'group')} takes {least:g}"
        )


def _sharded(kind: str, wanted: Wanted, shards: int) -> Plan:
    """Make a plan for each shard, and put them side by side."""
    sequences: list[list[int]] = []
    inner: dict[int, Plan] = {}
    for number, shard in enumerate(np.array_split(np.arange(wanted.groups), shards)):
        size = len(shard)
        # Without a prior, shards of one size have the same plan, so it is searched once.
        if size not in inner or wanted.prior is not None:
            inner[size] = KINDS[kind](_inside(wanted, shard, number, shards))
        sequences += [shard[list(path)].tolist() for path in inner[size].sequences]
    return Plan.of(kind, wanted.groups, sequences)


def _inside(wanted: Wanted, shard: NDArray[np.int64], number: int, shards: int) -> Wanted:
    """Return the requirements of one shard; passes over all data are as many over the shard's own."""
    chances = None if wanted.prior is None else wanted.prior[shard]
    if chances is not None:
        total = float(chances.sum())
        chances = chances / total if total else None  # no request hits this shard, so any order will do
    report = wanted.progress
    return replace(
        wanted,
        groups=len(shard),
        prior=chances,
        progress=lambda share: report((number + share) / shards),
    )


def _rotations(wanted: Wanted) -> Plan:
    return _fit(partial(rotations, wanted.groups), wanted, most=wanted.groups)


def _first_rotations(wanted: Wanted) -> Plan:
    return _fit(partial(first_rotations, wanted.groups), wanted, most=wanted.groups)


def _iterative(wanted: Wanted) -> Plan:
    return _fit(
        partial(iterative_rotations, wanted.groups), wanted, most=factorial(min(wanted.groups, 20))
    )  # 20! is more than any budget


def _matching(wanted: Wanted) -> Plan:
    return _fit(lambda count: matching(wanted.groups, count, wanted.prior), wanted, most=wanted.groups)


def _greedy(wanted: Wanted) -> Plan:
    return greedy(wanted.groups, wanted.budget, wanted.prior, wanted.passes, wanted.window)


def _tree(wanted: Wanted) -> Plan:
    search = partial(tree, wanted.groups, wanted.budget, wanted.prior, wanted.passes)
    return search(seed=wanted.seed, progress=wanted.progress, window=wanted.window)


def _none(wanted: Wanted) -> Plan:
    return Plan.of(NO_MODULES, wanted.groups, ())


def _fit(by_budget: Callable[[int], Plan], wanted: Wanted, most: int) -> Plan:
    """Return the plan of this budget, or of as many sequences as the passes allow."""
    if wanted.passes is None:
        return by_budget(wanted.groups if wanted.budget is None else wanted.budget)
    # Without sharing, a sequence costs (L+1)/2 passes, or less with a window.
    most = most if wanted.budget is None else min(wanted.budget, most)
    count = min(most, int(wanted.passes / order_passes(wanted.groups, wanted.window) + 1e-9))
    # The count assumes that no prefix is shared; shared prefixes may leave room for more.
    while count < most and wanted.fits(by_budget(count + 1)):
        count += 1
    return by_budget(count)


# The names are settings (`plan.kind`) and stand in run descriptions: never change one.
KINDS: dict[str, Callable[[Wanted], Plan]] = {
    "rotations": _rotations,
    "rotations-first": _first_rotations,
    "iterative-rotations": _iterative,
    "matching": _matching,
    "greedy": _greedy,
    "tree": _tree,
    NO_MODULES: _none,
}
