"""Tables over all subsets of the groups: a subset is the integer whose bit g says that group g is in it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

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


def _halves(table: NDArray[np.generic], bit: int) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """Views of the entries without and with this bit, entry by entry alike but for it."""
    blocks = table.reshape(-1, 2, 1 << bit)
    return blocks[:, 0, :], blocks[:, 1, :]


def spread_maximum(table: NDArray[np.int8]) -> None:
    """In place: each subset's entry becomes the largest among its own subsets."""
    for bit in range(table.size.bit_length() - 1):
        without, with_bit = _halves(table, bit)
        np.maximum(with_bit, without, out=with_bit)


def mobius(table: NDArray[np.int64]) -> None:
    """In place: the coefficients g with table[A] = sum of g[B] over B within A."""
    for bit in range(table.size.bit_length() - 1):
        without, with_bit = _halves(table, bit)
        np.subtract(with_bit, without, out=with_bit)


def subset_totals(table: NDArray[np.float64]) -> None:
    """In place: each subset's entry becomes the sum over its own subsets."""
    for bit in range(table.size.bit_length() - 1):
        without, with_bit = _halves(table, bit)
        np.add(with_bit, without, out=with_bit)


def superset_mobius(table: NDArray[np.float64]) -> None:
    """In place: the coefficients g with table[A] = sum of g[B] over B that hold A."""
    for bit in range(table.size.bit_length() - 1):
        without, with_bit = _halves(table, bit)
        np.subtract(without, with_bit, out=without)


def superset_sums(table: NDArray[np.float64]) -> None:
    """In place: each subset's entry becomes the sum over all subsets that hold it."""
    for bit in range(table.size.bit_length() - 1):
        without, with_bit = _halves(table, bit)
        np.add(without, with_bit, out=without)
