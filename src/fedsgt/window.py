"""The window: how much of its prefix a phase trains on, and so what it costs (definition 9)."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, TypeAlias

Window: TypeAlias = int | Literal["own"] | None
"""Number of groups' worth of records that an epoch of a phase uses at most, spread evenly over its prefix.

With "own" a phase trains on its last group alone, and with None, as in the paper, on all of its prefix.
"""


def trained_groups(prefix: tuple[int, ...], window: Window) -> tuple[int, ...]:
    """Return the groups of a prefix that its last phase trains on: all of them, or its own alone."""
    return prefix[-1:] if window == "own" else prefix


def groups_used(depth: int, window: Window) -> int:
    """Return how many groups' worth of records an epoch of a phase at this depth uses: its cost."""
    if window is None:
        return depth
    return 1 if window == "own" else min(depth, window)


def share_used(depth: int, window: Window) -> Fraction:
    """Return the share of the records of its trained groups that an epoch of a phase at this depth uses."""
    return Fraction(1) if window == "own" else Fraction(groups_used(depth, window), depth)


def records_used(records: int, depth: int, window: Window) -> int:
    """Return how many of a client's records in the trained groups an epoch uses, on average; at least 1."""
    return max(1, round(records * share_used(depth, window)))


def order_passes(groups: int, window: Window) -> float:
    """Return the passes over the data that training one order of so many groups takes."""
    return sum(groups_used(depth, window) for depth in range(1, groups + 1)) / groups
