"""Plans in which every set of groups is trained at most once, found by simulated annealing.

Each set of groups is trained on top of a set with one group less. The groups behind the longest live prefix
are therefore the number of sizes of which some set is unhit: each size adds its own part to the expected live
groups, and a change at one size is scored by that size alone.
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
from fedsgt.plans.scoring.scores import horizon, uniform_live
from fedsgt.plans.tree.level_scores import LevelScores, make_level_scores, requests_compared
from fedsgt.plans.tree.ruin_and_recreate import RuinAndRecreate
from fedsgt.plans.tree.trained_sets import TrainedSets, chain_sets, plan_of, rotation_sets
from fedsgt.window import Window

# Groups up to which trees are searched; a move takes time in proportion to 2**L.
LARGEST_SEARCHED = 16
# A shortfall below this share counts as rounding; `_above_floor` decides exactly before a tree is kept.
ROUNDING = 1e-10
# Function of live groups and cost that returns the value to lower, and how far it is out of bounds.
Goal = Callable[[NDArray[np.float64], float], tuple[float, float]]
# Called with the share of the work that is done.
Progress = Callable[[float], None]


def ignore(share: float) -> None:
    """Ignore the progress."""


def tree(
    groups: int,
    budget: int | None = None,
    prior: NDArray[np.float64] | None = None,
    passes: float | None = None,
    *,
    seed: int = 0,
    effort: float = 1.0,
    progress: Progress = ignore,
    window: Window = None,
) -> Plan:
    """Return the cheapest tree whose expected live groups are nowhere below those of `budget` rotations.

    The default budget is L. With `passes`, return the tree with most live groups over the coming requests at
    no more than that cost; with both, one that is still nowhere below the rotations. `effort` scales the
    length of the search. Above 16 groups nothing is searched: the tree trains the sets that the rotations
    train, and the full set once.
    """
    floor = rotations(groups, min(budget or groups, groups))
    arcs = rotation_sets(groups, floor.roots, window)
    if groups > LARGEST_SEARCHED or groups < 3:
        return _unsearched(plan_of(arcs), budget, passes)
    search = _Search(make_level_scores(groups, prior), floor, prior, seed, effort, progress)
    if passes is None:
        return plan_of(search.cheapest(arcs))
    if budget is None:
        order: list[int] = list(range(groups)) if prior is None else np.argsort(prior, kind="stable").tolist()
        return plan_of(search.best_within(chain_sets(order, passes, window), passes, above_floor=False))
    # Two searches, each half of the progress shown.
    search.progress = lambda share: progress(share / 2)
    cheapest = search.cheapest(arcs)
    search.progress = lambda share: progress((1 + share) / 2)
    _check_enough(passes, cheapest.passes, budget)
    return plan_of(search.best_within(cheapest, passes, above_floor=True))


def _check_enough(passes: float, needed: float, budget: int) -> None:
    """Check that a tree as good as the rotations fits into the passes."""
    if needed > passes + 1e-9:
        raise InputError(
            f"passes: {passes:g} is too little for a tree as good as {budget} rotations; {needed:g} is enough"
        )


def _unsearched(plan: Plan, budget: int | None, passes: float | None) -> Plan:
    """Return as many of the plan's sequences, longest first, as the cost allows."""
    if budget is not None and passes is not None:
        _check_enough(passes, plan.passes, budget)
    while passes is not None and plan.passes > passes + 1e-9:
        plan = Plan.of(plan.kind, plan.groups, plan.sequences[:-1], plan.window)
    return plan


@dataclass(frozen=True)
class Schedule:
    """Temperature and price of being out of bounds, in passes, from the first move to the last."""

    hot: float
    cold: float
    lenient: float
    strict: float
    length: float = 1.0
    """Share of the affordable moves that is used."""

    def at(self, done: float) -> tuple[float, float]:
        """Return temperature and price when this share of the moves is done; both change geometrically."""
        return self.hot * (self.cold / self.hot) ** done, self.lenient * (self.strict / self.lenient) ** done


# Hot enough at first to leave the start, strict enough at last that nothing out of bounds is kept.
TO_CHEAPEST = Schedule(hot=0.3, cold=0.01, lenient=20, strict=500)
TO_BEST = Schedule(
    hot=0.1, cold=0.003, lenient=5, strict=500, length=0.5
)  # ruin and recreate takes the other half


class _Search:
    """Simulated annealing with a fixed number of moves, so that a seed always gives the same plan."""

    def __init__(
        self,
        scores: LevelScores,
        floor: Plan,
        prior: NDArray[np.float64] | None,
        seed: int,
        effort: float,
        progress: Progress,
    ) -> None:
        self.scores, self.rotations, self.prior, self.seed = scores, floor, prior, seed
        self.requests = scores.requests
        self.floor = np.array(floor.expected_live(self.requests, prior))
        roots_only = np.array(floor.survival(self.requests, prior))
        # A shortfall is judged in proportion to what the rotations offer beyond single groups.
        self.scale = np.maximum(self.floor - roots_only, 1e-300)
        self.effort, self.moves = effort, max(1, int(scores.affordable_moves * effort))
        self.progress = progress

    def cheapest(self, start: TrainedSets) -> TrainedSets:
        """Lower the cost while the live groups stay nowhere below those of the rotations."""

        def goal(curve: NDArray[np.float64], passes: float) -> tuple[float, float]:
            return passes, self._shortfall(curve)

        return self._anneal(start, goal, self._above_floor, TO_CHEAPEST)

    def best_within(self, start: TrainedSets, passes: float, above_floor: bool) -> TrainedSets:
        """Raise the mean live groups while the cost stays within `passes`."""
        mean = [index for index, count in enumerate(self.requests) if count in horizon(start.groups)]
        unit = passes / max(float(self.floor[mean].mean()), 1e-9)  # makes live groups and passes comparable

        def goal(curve: NDArray[np.float64], cost: float) -> tuple[float, float]:
            short = self._shortfall(curve) if above_floor else 0.0
            return -unit * float(curve[mean].mean()), short + max(0.0, cost - passes)

        confirm = self._above_floor if above_floor else lambda sets: True
        annealed = self._anneal(start, goal, confirm, TO_BEST)
        recreate = RuinAndRecreate(self.scores, passes, self.seed, self.effort)
        return recreate.improve(annealed, confirm, lambda share: self.progress((1 + share) / 2))

    def _shortfall(self, curve: NDArray[np.float64]) -> float:
        """Return by how much the curve is below the rotations, summed over the numbers of requests."""
        below = (self.floor - curve) / self.scale
        return float(below[below > ROUNDING].sum())

    def _above_floor(self, sets: TrainedSets) -> bool:
        """Return whether the plan's exact score is nowhere below that of the rotations."""
        plan, watched = plan_of(sets), requests_compared(sets.groups)
        if self.prior is None:
            return all(uniform_live(plan, count) >= uniform_live(self.rotations, count) for count in watched)
        ours = np.array(plan.expected_live(watched, self.prior))
        theirs = np.array(self.rotations.expected_live(watched, self.prior))
        return bool((ours >= theirs - 1e-12).all())

    def _anneal(
        self, start: TrainedSets, goal: Goal, confirm: Callable[[TrainedSets], bool], schedule: Schedule
    ) -> TrainedSets:
        """Return the best sets met that are within bounds and confirmed; `start` if none are better."""
        rng = random.Random(self.seed)
        sets, best = start.copy(), start.copy()
        # One measure for each level, so that a move measures only the levels that it changes.
        measures = [self.scores.measure(level) for level in sets.levels]
        total = sum(measures[1:], self.scores.zero)
        value, outside = goal(self.scores.curve(total), sets.passes)
        best_value = value if outside == 0 else math.inf
        moves = max(1, int(self.moves * schedule.length))
        for move in range(moves):
            # Seldom, so that showing progress takes no time from the search.
            if move % 4096 == 0:
                self.progress(schedule.length * move / moves)
            changes = sets.propose(rng)
            if not changes:
                continue
            measured = {size: self.scores.measure(level) for size, level in changes.items()}
            changed = total + sum(measure - measures[size] for size, measure in measured.items())
            curve = self.scores.curve(changed)
            new_value, new_outside = goal(curve, sets.passes_with(changes))
            temperature, price = schedule.at(move / moves)
            # Out of bounds is allowed at a price that grows, so that the search can cross forbidden ground.
            rise = new_value - value + price * (new_outside - outside)
            if rise <= 0 or rng.random() < math.exp(-rise / temperature):
                sets.replace(changes)
                for size, measure in measured.items():
                    measures[size] = measure
                total, value, outside = changed, new_value, new_outside
                # `confirm` is exact and slow: ask only for what seems better.
                if outside == 0 and value < best_value - 1e-9 and confirm(sets):
                    best, best_value = sets.copy(), value
        return best
