"""Tables over all subsets of the groups: a subset is the integer whose bit g says that group g is in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", np.int8, np.int64, np.float64)

LARGEST_EXACT = 20  # groups; the tables hold 2**groups entries


def mask_of(groups: Iterable[int]) -> int:
    """The subset that holds these groups."""
    mask = 0
    for group in groups:
        mask |= 1 << group
    return mask


def members(mask: int) -> list[int]:
    """The groups in this subset, in ascending order."""
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


@lru_cache(maxsize=4)
def sizes(groups: int) -> NDArray[np.uint8]:
    """How many groups each subset holds."""
    return np.bitwise_count(np.arange(1 << groups, dtype=np.uint32))


def subset_sums(weights: Iterable[float]) -> NDArray[np.float64]:
    """The weight of each subset, each weight counted once for each subset that it is in."""
    table = np.zeros(1)
    for weight in weights:
        table = np.concatenate([table, table + weight])
    return table


def spread_maximum(table: NDArray[np.int8]) -> None:
    """In place: each subset's entry becomes the largest among its own subsets."""
    _sweep(table, lambda without, holding: np.maximum(holding, without, out=holding))


def mobius(table: NDArray[np.int64]) -> None:
    """In place: the coefficients g with table[A] = sum of g[B] over B within A."""
    _sweep(table, lambda without, holding: np.subtract(holding, without, out=holding))


def subset_totals(table: NDArray[np.float64]) -> None:
    """In place: each subset's entry becomes the sum over its own subsets."""
    _sweep(table, lambda without, holding: np.add(holding, without, out=holding))


def superset_mobius(table: NDArray[np.float64]) -> None:
    """In place: the coefficients g with table[A] = sum of g[B] over B that hold A."""
    _sweep(table, lambda without, holding: np.subtract(without, holding, out=without))


def superset_sums(table: NDArray[np.float64]) -> None:
    """In place: each subset's entry becomes the sum over all subsets that hold it."""
    _sweep(table, lambda without, holding: np.add(without, holding, out=without))


def _sweep(table: NDArray[Number], step: Callable[[NDArray[Number], NDArray[Number]], object]) -> None:
    """For each group in turn: change the entries without it and those that hold it, alike but for it."""
    for bit in range(table.size.bit_length() - 1):
        blocks = table.reshape(-1, 2, 1 << bit)
        step(blocks[:, 0, :], blocks[:, 1, :])
