"""Plans in which every set of groups is trained at most once, found by annealing over families of sets.

A family holds sets of each size, each on top of a smaller one of the family. Because of that, the groups
behind the longest live prefix are the number of sizes of which some set is unhit, so each size adds its own
part to the expected live groups, and a change at one size is scored by that size alone.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsgt.errors import InputError
from fedsgt.plans.cyclic import rotations
from fedsgt.plans.plan import Plan
from fedsgt.plans.scoring.scores import uniform_live
from fedsgt.plans.scoring.weights import horizon
from fedsgt.plans.tree.coverage import Coverage, make_coverage, requests_watched
from fedsgt.plans.tree.family import Family, chain_family, plan_of, rotation_family
from fedsgt.plans.tree.ruin_and_recreate import Recreate

LARGEST_SEARCHED = 16
ROUNDING = 1e-10  # of that scale; what passes for a tie here is judged exactly before it is kept
Goal = Callable[[NDArray[np.float64], float], tuple[float, float]]  # what to lower, and how far out of bounds

Progress = Callable[[float], None]  # told the share that is done


def ignore(share: float) -> None:
    """For those who do not watch."""


def tree(
    groups: int,
    budget: int | None = None,
    prior: NDArray[np.float64] | None = None,
    passes: float | None = None,
    *,
    seed: int = 0,
    effort: float = 1.0,
    progress: Progress = ignore,
) -> Plan:
    """The cheapest tree with expected live groups nowhere below those of `budget` rotations (L by default).

    With `passes`, the tree with the most live groups over the coming requests at no more than that cost; with
    both, still nowhere below the rotations. `effort` scales the length of the search. Above 16 groups nothing
    is searched: the arcs that the rotations train, the full set once.
    """
    floor = rotations(groups, min(budget or groups, groups))
    arcs = rotation_family(groups, floor.roots)
    if groups > LARGEST_SEARCHED or groups < 3:
        return _unsearched(plan_of(arcs), budget, passes)
    search = _Search(make_coverage(groups, prior), floor, prior, seed, effort, progress)
    if passes is None:
        return plan_of(search.cheapest(arcs))
    if budget is None:
        order: list[int] = list(range(groups)) if prior is None else np.argsort(prior, kind="stable").tolist()
        return plan_of(search.best_within(chain_family(order, passes), passes, above_floor=False))
    search.progress = lambda share: progress(share / 2)
    cheapest = search.cheapest(arcs)
    search.progress = lambda share: progress((1 + share) / 2)
    _check_enough(passes, cheapest.passes, budget)
    return plan_of(search.best_within(cheapest, passes, above_floor=True))


def _check_enough(passes: float, needed: float, budget: int) -> None:
    if needed > passes + 1e-9:
        raise InputError(
            f"passes: {passes:g} is too little for a tree that equals {budget} rotations; {needed:g} will do"
        )


def _unsearched(plan: Plan, budget: int | None, passes: float | None) -> Plan:
    """As many of its sequences, longest first, as the cost allows; all of them if it must equal rotations."""
    if budget is not None and passes is not None:
        _check_enough(passes, plan.passes, budget)
    while passes is not None and plan.passes > passes + 1e-9:
        plan = Plan.of(plan.kind, plan.groups, plan.sequences[:-1])
    return plan


@dataclass(frozen=True)
class Schedule:
    """Temperatures and the price of being out of bounds, in passes, from the first move to the last."""

    hot: float
    cold: float
    lenient: float
    strict: float
    length: float = 1.0  # share of the moves that can be afforded

    def at(self, done: float) -> tuple[float, float]:
        return self.hot * (self.cold / self.hot) ** done, self.lenient * (self.strict / self.lenient) ** done


TO_CHEAPEST = Schedule(hot=0.3, cold=0.01, lenient=20, strict=500)
TO_BEST = Schedule(hot=0.1, cold=0.003, lenient=5, strict=500, length=0.5)  # the rest is for recreating


class _Search:
    """Annealing with a fixed number of moves, so that a seed always gives the same plan."""

    def __init__(
        self,
        coverage: Coverage,
        floor: Plan,
        prior: NDArray[np.float64] | None,
        seed: int,
        effort: float,
        progress: Progress,
    ) -> None:
        self.coverage, self.rotations, self.prior, self.seed = coverage, floor, prior, seed
        self.requests = coverage.requests
        self.floor = np.array(floor.expected_live(self.requests, prior))
        roots_only = np.array(floor.survival(self.requests, prior))
        # What rotations offer beyond single groups is the scale on which falling short is judged.
        self.scale = np.maximum(self.floor - roots_only, 1e-300)
        self.effort, self.moves = effort, max(1, int(coverage.affordable_moves * effort))
        self.progress = progress

    def cheapest(self, start: Family) -> Family:
        def goal(curve: NDArray[np.float64], passes: float) -> tuple[float, float]:
            return passes, self._shortfall(curve)

        return self._anneal(start, goal, self._above_floor, TO_CHEAPEST)

    def best_within(self, start: Family, passes: float, above_floor: bool) -> Family:
        mean = [index for index, count in enumerate(self.requests) if count in horizon(start.groups)]
        unit = passes / max(float(self.floor[mean].mean()), 1e-9)  # live groups in the currency of passes

        def goal(curve: NDArray[np.float64], cost: float) -> tuple[float, float]:
            short = self._shortfall(curve) if above_floor else 0.0
            return -unit * float(curve[mean].mean()), short + max(0.0, cost - passes)

        confirm = self._above_floor if above_floor else lambda family: True
        annealed = self._anneal(start, goal, confirm, TO_BEST)
        recreate = Recreate(self.coverage, passes, self.seed, self.effort)
        return recreate.improve(annealed, confirm, lambda share: self.progress((1 + share) / 2))

    def _shortfall(self, curve: NDArray[np.float64]) -> float:
        below = (self.floor - curve) / self.scale
        return float(below[below > ROUNDING].sum())

    def _above_floor(self, family: Family) -> bool:
        """Nowhere below the rotations by the plan's own exact score."""
        plan, watched = plan_of(family), requests_watched(family.groups)
        if self.prior is None:
            return all(uniform_live(plan, count) >= uniform_live(self.rotations, count) for count in watched)
        ours = np.array(plan.expected_live(watched, self.prior))
        theirs = np.array(self.rotations.expected_live(watched, self.prior))
        return bool((ours >= theirs - 1e-12).all())

    def _anneal(
        self, start: Family, goal: Goal, confirm: Callable[[Family], bool], schedule: Schedule
    ) -> Family:
        """The best family met that is within bounds and confirmed; `start` if there is none better."""
        rng = random.Random(self.seed)
        family, best = start.copy(), start.copy()
        measures = [self.coverage.measure(level) for level in family.levels]
        total = sum(measures[1:], self.coverage.nothing)
        value, outside = goal(self.coverage.curve(total), family.passes)
        best_value = value if outside == 0 else math.inf
        moves = max(1, int(self.moves * schedule.length))
        for move in range(moves):
            if move % 4096 == 0:
                self.progress(schedule.length * move / moves)
            changes = family.propose(rng)
            if not changes:
                continue
            measured = {size: self.coverage.measure(level) for size, level in changes.items()}
            changed = total + sum(measure - measures[size] for size, measure in measured.items())
            curve = self.coverage.curve(changed)
            new_value, new_outside = goal(curve, family.passes_with(changes))
            heat, price = schedule.at(move / moves)
            rise = new_value - value + price * (new_outside - outside)
            if rise <= 0 or rng.random() < math.exp(-rise / heat):
                family.replace(changes)
                for size, measure in measured.items():
                    measures[size] = measure
                total, value, outside = changed, new_value, new_outside
                if outside == 0 and value < best_value - 1e-9 and confirm(family):
                    best, best_value = family.copy(), value
        return best
