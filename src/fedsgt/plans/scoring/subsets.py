"""Tables over all subsets of the groups. A subset is an integer: bit g says whether group g is in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", np.int8, np.int64, np.float64)

# Groups up to which scores are exact; a table has 2**groups entries, 8 MB at 20.
LARGEST_EXACT = 20


def mask_of(groups: Iterable[int]) -> int:
    """Return the subset that holds these groups."""
    mask = 0
    for group in groups:
        mask |= 1 << group
    return mask


def members(mask: int) -> list[int]:
    """Return the groups in this subset, ascending."""
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


@lru_cache(maxsize=4)
def sizes(groups: int) -> NDArray[np.uint8]:
    """Return the number of groups in each subset."""
    return np.bitwise_count(np.arange(1 << groups, dtype=np.uint32))


def subset_sums(weights: Iterable[float]) -> NDArray[np.float64]:
    """Return the total weight of each subset, given the weight of each group."""
    # Each weight doubles the table: the second half holds the subsets with this group.
    table = np.zeros(1)
    for weight in weights:
        table = np.concatenate([table, table + weight])
    return table


def spread_maximum(table: NDArray[np.int8]) -> None:
    """Replace each subset's entry by the largest entry among its own subsets."""
    _sweep(table, lambda without, holding: np.maximum(holding, without, out=holding))


def mobius(table: NDArray[np.int64]) -> None:
    """Replace the table by the coefficients g with table[A] = sum of g[B] over B within A."""
    _sweep(table, lambda without, holding: np.subtract(holding, without, out=holding))


def subset_totals(table: NDArray[np.float64]) -> None:
    """Replace each subset's entry by the sum over its own subsets."""
    _sweep(table, lambda without, holding: np.add(holding, without, out=holding))


def superset_mobius(table: NDArray[np.float64]) -> None:
    """Replace the table by the coefficients g with table[A] = sum of g[B] over B that hold A."""
    _sweep(table, lambda without, holding: np.subtract(without, holding, out=without))


def superset_sums(table: NDArray[np.float64]) -> None:
    """Replace each subset's entry by the sum over all subsets that hold it."""
    _sweep(table, lambda without, holding: np.add(without, holding, out=without))


def _sweep(table: NDArray[Number], step: Callable[[NDArray[Number], NDArray[Number]], object]) -> None:
    """Apply the step to each group in turn: to the entries without it and the same entries with it."""
    for bit in range(table.size.bit_length() - 1):
        # Entries that differ in this bit only stand 2**bit apart, so a view pairs them without a copy.
        blocks = table.reshape(-1, 2, 1 << bit)
        step(blocks[:, 0, :], blocks[:, 1, :])
