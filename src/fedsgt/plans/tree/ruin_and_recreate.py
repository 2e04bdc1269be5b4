"""Improve a tree at a given cost: drop some sets, refill where it gains most, then exchange sets."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from fedsgt.plans.tree.level_scores import LevelScores
from fedsgt.plans.tree.trained_sets import TrainedSets, each_has_parent

# Rounds at up to ten groups; each further group makes a round about four times as long, so there are fewer.
ROUNDS = 160
TINY = 1e-12  # a gain below this is rounding


class RuinAndRecreate:
    """Ruin and recreate: keep a change if it raises the mean live groups over the coming requests."""

    def __init__(self, scores: LevelScores, passes: float, seed: int, effort: float) -> None:
        self.scores, self.passes = scores, passes
        self.rng, self.effort = random.Random(seed), effort

    def improve(
        self, sets: TrainedSets, confirm: Callable[[TrainedSets], bool], progress: Callable[[float], None]
    ) -> TrainedSets:
        """Return the best confirmed outcome of all rounds, or the sets themselves if none is better."""
        best, value = sets, self._value(sets)
        rounds = int(self.effort * (ROUNDS >> 2 * max(0, sets.groups - 10)))
        for done in range(rounds):
            progress(done / rounds)
            # Always from the best so far: a round either improves it or leaves no trace.
            changed = best.copy()
            self._ruin(changed)
            self._refill(changed)
            self._exchange(changed)
            if self._value(changed) > value + TINY and confirm(changed):
                best, value = changed, self._value(changed)
        return best

    def _value(self, sets: TrainedSets) -> float:
        """Return the expected live groups, averaged over the coming requests."""
        return sum(self.scores.probability(self.scores.outcomes(level)) for level in sets.levels[1:])

    def _ruin(self, sets: TrainedSets) -> None:
        """Drop up to 15 random sets, none that a larger set needs as its only parent."""
        for _ in range(self.rng.randrange(2, 16)):
            size = self.rng.randrange(2, sets.groups)
            rest = list(sets.levels[size])
            if rest:
                rest.pop(self.rng.randrange(len(rest)))
            if each_has_parent(sets.levels[size + 1], rest):
                sets.replace({size: rest})

    def _refill(self, sets: TrainedSets) -> None:
        """Add the set that gains most for its cost, as long as one can be afforded."""
        while True:
            # In groups trained on, as the cost is counted.
            left = self.passes * sets.groups - sets.cost + TINY
            affordable = [size for size in range(2, sets.groups) if sets.prices[size] <= left]
            best = max((self._best_addition(sets, size) for size in affordable), default=(0.0, 0, 0))
            if best[0] <= TINY:
                return
            _, size, grown = best
            sets.replace({size: [*sets.levels[size], grown]})

    def _best_addition(self, sets: TrainedSets, size: int) -> tuple[float, int, int]:
        """Return the largest gain for its cost at this size, with the size and the set."""
        covered = self.scores.outcomes(sets.levels[size])
        gains = (
            (self._gain(grown, covered) / sets.prices[size], size, grown) for grown in _growths(sets, size)
        )
        return max(gains, default=(0.0, 0, 0))

    def _gain(self, mask: int, covered: int) -> float:
        """Return the gain of the set over the outcomes that its level covers already."""
        return self.scores.probability(self.scores.outcomes([mask]) & ~covered)

    def _exchange(self, sets: TrainedSets) -> None:
        """Exchange sets for others of their size, size after size, until no exchange gains."""
        gained = True
        while gained:
            gained = False
            for size in range(2, sets.groups):
                gained |= self._exchange_at(sets, size)

    def _exchange_at(self, sets: TrainedSets, size: int) -> bool:
        """Make the best exchange at this size; False if none gains."""
        level, growths = sets.levels[size], list(_growths(sets, size))
        now, best = self.scores.probability(self.scores.outcomes(level)), (TINY, 0, 0)
        for index in range(len(level)):
            covered = self.scores.outcomes(level[:index] + level[index + 1 :])
            loss = self.scores.probability(covered) - now
            for grown in growths:
                gain = loss + self._gain(grown, covered)
                # The gain is cheap to compute, the check of parents is not: so it comes second.
                if gain > best[0] and each_has_parent(sets.levels[size + 1], _exchanged(level, index, grown)):
                    best = (gain, index, grown)
        if best[0] > TINY:
            sets.replace({size: _exchanged(level, best[1], best[2])})
        return best[0] > TINY


def _exchanged(level: list[int], index: int, grown: int) -> list[int]:
    """Return the level with the set at this index replaced."""
    return [*level[:index], *level[index + 1 :], grown]


def _growths(sets: TrainedSets, size: int) -> Iterator[int]:
    """Yield the sets of this size that have a parent and are not there yet, each once."""
    bits = [1 << group for group in range(sets.groups)]
    grown = {parent | bit for parent in sets.levels[size - 1] for bit in bits if not parent & bit}
    # Sorted, because the order of a set is not fixed and ties would depend on it.
    return iter(sorted(grown - set(sets.levels[size])))
