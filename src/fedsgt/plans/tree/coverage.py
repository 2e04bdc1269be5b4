"""How much a level of a family adds to the expected live groups, fast enough for a search.

A set of unhit groups is one bit of a Python integer of 2**L bits; "holds some set of the level" is then a
bitwise OR of a few such integers, and counting is `bit_count`.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, comb
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedsgt.plans.scoring.subsets import members, sizes, subset_sums, superset_mobius
from fedsgt.plans.scoring.weights import horizon


class Coverage(Protocol):
    """Measures of levels add up; the sum over a family's levels gives its expected live groups."""

    requests: list[int]
    affordable_moves: int
    nothing: NDArray[np.float64]

    def measure(self, level: list[int]) -> NDArray[np.float64]: ...
    def curve(self, total: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def cover(self, level: list[int]) -> int: ...
    def worth(self, cover: int) -> float: ...


def requests_watched(groups: int) -> list[int]:
    """0..60, or further where a plan of many groups lives longer than that."""
    rate = groups * sum(1 / head for head in range(1, groups + 1))
    return list(range(max(60, ceil(2 * rate)) + 1))


class Supersets:
    """For each set, the integer whose bits are the sets that hold it."""

    def __init__(self, groups: int) -> None:
        self.count = 1 << groups
        self._holding = [
            _bits((np.arange(self.count) >> group & 1).astype(np.bool_)) for group in range(groups)
        ]
        self.of = lru_cache(maxsize=1 << 14)(self._of)

    def _of(self, mask: int) -> int:
        bits = (1 << self.count) - 1
        for group in members(mask):
            bits &= self._holding[group]
        return bits

    def cover(self, level: list[int]) -> int:
        bits = 0
        for mask in level:
            bits |= self.of(mask)
        return bits


class UniformCoverage:
    """Every group equally likely: only how many sets of each size are covered matters."""

    def __init__(self, groups: int) -> None:
        self.requests = requests_watched(groups)
        self.affordable_moves = min(600 * groups**3, 900_000) >> max(0, groups - 12)
        self._supersets = Supersets(groups)
        self._of_size = [_bits(sizes(groups) == size) for size in range(groups + 1)]
        self.nothing = np.zeros(groups + 1)
        per_set = [comb(groups, size) for size in range(groups + 1)]
        self._weights = unhit_counts(groups, self.requests[-1]) / per_set
        self._worths: list[float] = self._weights[list(horizon(groups))].mean(axis=0).tolist()
        self.cover = self._supersets.cover

    def measure(self, level: list[int]) -> NDArray[np.float64]:
        """How many sets of each size hold a set of the level: whole numbers, so that sums do not drift."""
        cover = self._supersets.cover(level)
        return np.array([(cover & same).bit_count() for same in self._of_size], dtype=np.float64)

    def curve(self, total: NDArray[np.float64]) -> NDArray[np.float64]:
        return self._weights @ total

    def worth(self, cover: int) -> float:
        """The mean over the coming requests of P(the unhit groups are one of these sets)."""
        counts = ((cover & same).bit_count() for same in self._of_size)
        return sum(worth * count for worth, count in zip(self._worths, counts, strict=True))


class PriorCoverage:
    """Any prior over groups: each covered set counts with its own probability."""

    def __init__(self, groups: int, prior: NDArray[np.float64]) -> None:
        watched = requests_watched(groups)
        self.requests = sorted(
            {round(count) for count in np.linspace(0, 4, 5)} | set(watched[:: len(watched) // 20])
        )
        self.affordable_moves = 3_000 * groups**2 >> max(0, groups - 10)
        self._supersets = Supersets(groups)
        self.nothing = np.zeros(len(self.requests))
        misses = np.maximum(1 - subset_sums(prior), 0)
        tables = np.stack([misses**count for count in self.requests])
        for table in tables:
            superset_mobius(table)
        self._weights = tables
        coming = [index for index, count in enumerate(self.requests) if count in horizon(groups)]
        self._worths = tables[coming].mean(axis=0)
        self.cover = self._supersets.cover

    def measure(self, level: list[int]) -> NDArray[np.float64]:
        """P(some set of the level is unhit) after each number of requests."""
        return self._weights @ self._flags(self.cover(level))

    def curve(self, total: NDArray[np.float64]) -> NDArray[np.float64]:
        return total

    def worth(self, cover: int) -> float:
        """The mean over the coming requests of P(the unhit groups are one of these sets)."""
        return float(self._worths @ self._flags(cover))

    def _flags(self, cover: int) -> NDArray[np.uint8]:
        count = self._supersets.count
        content = np.frombuffer(cover.to_bytes(max(1, count // 8), "little"), dtype=np.uint8)
        return np.unpackbits(content, bitorder="little")[:count]


def make_coverage(groups: int, prior: NDArray[np.float64] | None) -> Coverage:
    return UniformCoverage(groups) if prior is None else PriorCoverage(groups, prior)


def unhit_counts(groups: int, requests: int) -> NDArray[np.float64]:
    """P(so many groups unhit) after 0..requests uniform requests, a row for each number of requests."""
    rows = np.zeros((requests + 1, groups + 1))
    rows[0, groups] = 1
    unhit = np.arange(groups + 1)
    for count in range(requests):
        rows[count + 1] = rows[count] * (groups - unhit) / groups
        rows[count + 1, :-1] += (rows[count] * unhit / groups)[1:]
    return rows


def _bits(flags: NDArray[np.bool_]) -> int:
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")
