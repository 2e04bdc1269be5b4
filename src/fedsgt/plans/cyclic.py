"""Rotations of the group list, the paper's choice, and S3T's way to go on when they run out."""

from __future__ import annotations

from collections.abc import Iterable
from math import factorial

from fedsgt.errors import InputError
from fedsgt.plans.plan import Plan, Prefix


def rotate(path: Prefix, offset: int) -> Prefix:
    """The path rotated right by this offset, as in the paper's [012345], [501234], ..."""
    offset %= len(path)
    return path[-offset:] + path[:-offset] if offset else path


def spread_offsets(groups: int, budget: int) -> list[int]:
    """The best offsets: gaps as equal as can be, the wider gaps side by side (SPEC, definition 5)."""
    width, wider = divmod(groups, budget)
    gaps = [width + 1] * wider + [width] * (budget - wider)
    return [sum(gaps[:index]) for index in range(budget)]


def rotations(groups: int, budget: int | None = None, offsets: Iterable[int] | None = None) -> Plan:
    """Cyclic rotations (the paper's SelectTrainingSequences): evenly spread, or with the given offsets.

    More than L of them repeat: the same modules, trained once, so nothing is lost and nothing is gained.
    """
    budget = groups if budget is None else budget
    if offsets is None:
        offsets = spread_offsets(groups, budget) if budget < groups else range(budget)
    order = tuple(range(groups))
    return Plan.of("rotations", groups, (rotate(order, offset) for offset in offsets))


def first_rotations(groups: int, budget: int | None = None) -> Plan:
    """The first B rotations, as the paper takes them: the worst offsets when B < L, kept to reproduce it."""
    return Plan.of("rotations-first", groups, rotations(groups, budget, range(budget or groups)).sequences)


def iterative_rotations(groups: int, budget: int | None = None) -> Plan:
    """S3T's selector for B > L: rotate the whole, then what follows the first group, and so on."""
    budget = groups if budget is None else budget
    if groups <= 20 and budget > factorial(groups):
        raise InputError(f"budget: {budget} is more than the {factorial(groups)} orders of {groups} groups")
    if budget <= groups:
        return Plan.of("iterative-rotations", groups, rotations(groups, budget).sequences)
    paths = [tuple(range(groups))]
    for fixed in range(groups):
        paths = _branch(paths, fixed, budget)
        if len(paths) == budget:
            break
    return Plan.of("iterative-rotations", groups, paths)


def _branch(paths: list[Prefix], fixed: int, budget: int) -> list[Prefix]:
    """Rotate what follows the first `fixed` groups of every path, as evenly as the budget allows."""
    wanted = min(budget, len(paths) * (len(paths[0]) - fixed))
    share, more = divmod(wanted, len(paths))
    luckier = {index * len(paths) // more for index in range(more)}  # as many under each head
    branched = []
    for index, path in enumerate(paths):
        count = share + (index in luckier)
        for offset in spread_offsets(len(path) - fixed, count):
            branched.append(path[:fixed] + rotate(path[fixed:], offset))
    return branched
