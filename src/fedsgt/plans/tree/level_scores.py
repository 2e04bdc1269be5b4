"""Contribution of the sets of one size to the expected live groups, fast enough for a search.

An outcome is a set of groups that no request has hit. Outcomes are the bits of a Python integer of 2**L bits,
so those in which some set of a level is live are a bitwise OR of a few integers, and `bit_count` counts them.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, comb
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedsgt.plans.scoring.scores import horizon
from fedsgt.plans.scoring.subsets import members, sizes, subset_sums, superset_mobius


class LevelScores(Protocol):
    """Scores of levels, which add up: their sum over all levels gives the expected live groups."""

    requests: list[int]
    """Numbers of requests after which plans are compared."""
    affordable_moves: int
    """Number of moves that a search can afford."""
    zero: NDArray[np.float64]
    """Measure of an empty level."""

    def measure(self, level: list[int]) -> NDArray[np.float64]:
        """Return the level's contribution to the expected live groups, in a form that can be summed."""

    def curve(self, total: NDArray[np.float64]) -> NDArray[np.float64]:
        """Turn a sum of measures into the expected live groups after each number of requests."""

    def outcomes(self, level: list[int]) -> int:
        """Return the outcomes in which some set of the level is live."""

    def probability(self, outcomes: int) -> float:
        """Return the probability that one of these outcomes happens, averaged over the coming requests."""


def requests_compared(groups: int) -> list[int]:
    """Return the numbers of requests to compare at: 0..60, or up to twice the deletion rate if more."""
    rate = groups * sum(1 / head for head in range(1, groups + 1))
    return list(range(max(60, ceil(2 * rate)) + 1))


class Outcomes:
    """The outcomes in which a set is live: all sets of unhit groups that hold it."""

    def __init__(self, groups: int) -> None:
        self.count = 1 << groups
        self._holding = [
            _bits((np.arange(self.count) >> group & 1).astype(np.bool_)) for group in range(groups)
        ]
        # A search asks for the same sets again and again; 2**14 integers of up to 8 kB each are 128 MB.
        self.of = lru_cache(maxsize=1 << 14)(self._of)

    def _of(self, mask: int) -> int:
        """Return the outcomes in which this set is live."""
        # Start with all outcomes and keep those that hold each group of the set.
        bits = (1 << self.count) - 1
        for group in members(mask):
            bits &= self._holding[group]
        return bits

    def any_of(self, level: list[int]) -> int:
        """Return the outcomes in which some set of the level is live."""
        bits = 0
        for mask in level:
            bits |= self.of(mask)
        return bits


class UniformScores:
    """Scores if every group is equally likely to be hit: only the sizes of the outcomes matter."""

    def __init__(self, groups: int) -> None:
        self.requests = requests_compared(groups)
        self.affordable_moves = min(600 * groups**3, 900_000) >> max(0, groups - 12)
        self._outcomes = Outcomes(groups)
        self._of_size = [_bits(sizes(groups) == size) for size in range(groups + 1)]
        self.zero = np.zeros(groups + 1)
        outcomes_of_size = [comb(groups, size) for size in range(groups + 1)]
        # P(one given outcome): all outcomes of one size are equally likely.
        self._weights = unhit_distribution(groups, self.requests[-1]) / outcomes_of_size
        self._probabilities: list[float] = self._weights[list(horizon(groups))].mean(axis=0).tolist()
        self.outcomes = self._outcomes.any_of

    def measure(self, level: list[int]) -> NDArray[np.float64]:
        """Return the number of outcomes of each size that hold a set of the level."""
        # Whole numbers, so that sums over a million moves do not drift.
        live = self.outcomes(level)
        return np.array([(live & same).bit_count() for same in self._of_size], dtype=np.float64)

    def curve(self, total: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the expected live groups after each number of requests."""
        return self._weights @ total

    def probability(self, outcomes: int) -> float:
        """Return the probability of these outcomes, averaged over the coming requests."""
        counts = ((outcomes & same).bit_count() for same in self._of_size)
        return sum(chance * count for chance, count in zip(self._probabilities, counts, strict=True))


class PriorScores:
    """Scores under any prior over groups: each outcome counts with its own probability."""

    def __init__(self, groups: int, prior: NDArray[np.float64]) -> None:
        watched = requests_compared(groups)
        # A measure costs a number of requests times 2**L here, so only about 25 numbers are compared.
        self.requests = sorted(
            {round(count) for count in np.linspace(0, 4, 5)} | set(watched[:: len(watched) // 20])
        )
        self.affordable_moves = 3_000 * groups**2 >> max(0, groups - 10)
        self._outcomes = Outcomes(groups)
        self.zero = np.zeros(len(self.requests))
        misses = np.maximum(1 - subset_sums(prior), 0)
        tables = np.stack([misses**count for count in self.requests])
        for table in tables:
            superset_mobius(table)
        self._weights = tables
        coming = [index for index, count in enumerate(self.requests) if count in horizon(groups)]
        self._probabilities = tables[coming].mean(axis=0)
        self.outcomes = self._outcomes.any_of

    def measure(self, level: list[int]) -> NDArray[np.float64]:
        """Return P(some set of the level is unhit) after each number of requests."""
        return self._weights @ self._flags(self.outcomes(level))

    def curve(self, total: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum as it is: measures are curves already."""
        return total

    def probability(self, outcomes: int) -> float:
        """Return the probability of these outcomes, averaged over the coming requests."""
        return float(self._probabilities @ self._flags(outcomes))

    def _flags(self, outcomes: int) -> NDArray[np.uint8]:
        """Return one flag for each outcome."""
        count = self._outcomes.count
        content = np.frombuffer(outcomes.to_bytes(max(1, count // 8), "little"), dtype=np.uint8)
        return np.unpackbits(content, bitorder="little")[:count]


def make_level_scores(groups: int, prior: NDArray[np.float64] | None) -> LevelScores:
    """Return scores under this prior; None is the uniform one."""
    return UniformScores(groups) if prior is None else PriorScores(groups, prior)


def unhit_distribution(groups: int, requests: int) -> NDArray[np.float64]:
    """Return P(so many groups unhit) (column) after each number of uniform requests (row)."""
    rows = np.zeros((requests + 1, groups + 1))
    rows[0, groups] = 1
    unhit = np.arange(groups + 1)
    # A Markov chain: a request hits a new group with a chance of unhit/L.
    for count in range(requests):
        rows[count + 1] = rows[count] * (groups - unhit) / groups
        rows[count + 1, :-1] += (rows[count] * unhit / groups)[1:]
    return rows


def _bits(flags: NDArray[np.bool_]) -> int:
    """Return the integer with these bits, the first flag lowest."""
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")
