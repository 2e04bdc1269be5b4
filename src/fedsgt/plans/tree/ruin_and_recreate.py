"""The last improvements of a tree at a given cost: drop some sets, refill where it gains most, exchange."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from fedsgt.plans.tree.coverage import Coverage
from fedsgt.plans.tree.family import Family, stand

ROUNDS = 160  # at up to ten groups; each further group makes a round about four times as long
TINY = 1e-12


class Recreate:
    """Ruin and recreate: a change is kept if the mean live groups over the coming requests rise."""

    def __init__(self, coverage: Coverage, passes: float, seed: int, effort: float) -> None:
        self.coverage, self.passes = coverage, passes
        self.rng, self.effort = random.Random(seed), effort

    def improve(
        self, family: Family, confirm: Callable[[Family], bool], progress: Callable[[float], None]
    ) -> Family:
        """The best of so many rounds that is confirmed; the family itself if none is better."""
        best, worth = family, self._worth(family)
        rounds = int(self.effort * (ROUNDS >> 2 * max(0, family.groups - 10)))
        for done in range(rounds):
            progress(done / rounds)
            changed = best.copy()
            self._ruin(changed)
            self._refill(changed)
            self._exchange(changed)
            if self._worth(changed) > worth + TINY and confirm(changed):
                best, worth = changed, self._worth(changed)
        return best

    def _worth(self, family: Family) -> float:
        return sum(self.coverage.worth(self.coverage.cover(level)) for level in family.levels[1:])

    def _ruin(self, family: Family) -> None:
        for _ in range(self.rng.randrange(2, 16)):
            size = self.rng.randrange(2, family.groups)
            rest = list(family.levels[size])
            if rest:
                rest.pop(self.rng.randrange(len(rest)))
            if stand(family.levels[size + 1], rest):
                family.replace({size: rest})

    def _refill(self, family: Family) -> None:
        """Add the set that gains most for its cost, as long as there is one that can be paid."""
        while True:
            left = self.passes * family.groups - family.cost + TINY
            affordable = range(2, min(family.groups, int(left) + 1))
            best = max((self._best_addition(family, size) for size in affordable), default=(0.0, 0, 0))
            if best[0] <= TINY:
                return
            _, size, grown = best
            family.replace({size: [*family.levels[size], grown]})

    def _best_addition(self, family: Family, size: int) -> tuple[float, int, int]:
        covered = self.coverage.cover(family.levels[size])
        gains = ((self._gain(grown, covered) / size, size, grown) for grown in _growths(family, size))
        return max(gains, default=(0.0, 0, 0))

    def _gain(self, mask: int, covered: int) -> float:
        return self.coverage.worth(self.coverage.cover([mask]) & ~covered)

    def _exchange(self, family: Family) -> None:
        """One set for another of its size, size after size, until no exchange gains."""
        gained = True
        while gained:
            gained = False
            for size in range(2, family.groups):
                gained |= self._exchange_at(family, size)

    def _exchange_at(self, family: Family, size: int) -> bool:
        level, growths = family.levels[size], list(_growths(family, size))
        now, best = self.coverage.worth(self.coverage.cover(level)), (TINY, 0, 0)
        for index in range(len(level)):
            covered = self.coverage.cover(level[:index] + level[index + 1 :])
            without = self.coverage.worth(covered) - now
            for grown in growths:
                gain = without + self._gain(grown, covered)
                if gain > best[0] and stand(family.levels[size + 1], _exchanged(level, index, grown)):
                    best = (gain, index, grown)
        if best[0] > TINY:
            family.replace({size: _exchanged(level, best[1], best[2])})
        return best[0] > TINY


def _exchanged(level: list[int], index: int, grown: int) -> list[int]:
    return [*level[:index], *level[index + 1 :], grown]


def _growths(family: Family, size: int) -> Iterator[int]:
    """The sets of this size that have a parent and are not there yet, each once."""
    bits = [1 << group for group in range(family.groups)]
    grown = {parent | bit for parent in family.levels[size - 1] for bit in bits if not parent & bit}
    return iter(sorted(grown - set(family.levels[size])))
