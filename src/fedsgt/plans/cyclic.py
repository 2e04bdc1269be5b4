"""Rotations of the list of groups, the paper's choice, and S3T's selector for more sequences than groups."""

from __future__ import annotations

from collections.abc import Iterable
from math import factorial

from fedsgt.errors import InputError
from fedsgt.plans.plan import Plan, Prefix
from fedsgt.words import counted


def rotate(sequence: Prefix, offset: int) -> Prefix:
    """Rotate the sequence right by this offset, as in the paper's [012345], [501234], ..."""
    offset %= len(sequence)
    return sequence[-offset:] + sequence[:-offset] if offset else sequence


def spread_offsets(groups: int, budget: int) -> list[int]:
    """Return the best offsets: gaps as equal as possible, the wider ones side by side (definition 5)."""
    width, wider = divmod(groups, budget)
    gaps = [width + 1] * wider + [width] * (budget - wider)
    return [sum(gaps[:index]) for index in range(budget)]


def rotations(groups: int, budget: int | None = None, offsets: Iterable[int] | None = None) -> Plan:
    """Return rotations (the paper's SelectTrainingSequences), evenly spread or with the given offsets.

    More than L of them repeat themselves: equal modules are trained once, so they cost and gain nothing.
    """
    budget = groups if budget is None else budget
    if offsets is None:
        offsets = spread_offsets(groups, budget) if budget < groups else range(budget)
    order = tuple(range(groups))
    return Plan.of("rotations", groups, (rotate(order, offset) for offset in offsets))


def first_rotations(groups: int, budget: int | None = None) -> Plan:
    """Return the first B rotations, as the paper takes them; for B < L these are the worst offsets."""
    return Plan.of("rotations-first", groups, rotations(groups, budget, range(budget or groups)).sequences)


def iterative_rotations(groups: int, budget: int | None = None) -> Plan:
    """Return S3T's selection for B > L: rotate the whole, then all after the first group, and so on."""
    budget = groups if budget is None else budget
    # Above 20 groups there are more orders than any budget asks for.
    if groups <= 20 and budget > factorial(groups):
        raise InputError(
            f"budget: {budget} is more than the {counted(factorial(groups), 'order')} of "
            f"{counted(groups, 'group')}"
        )
    if budget <= groups:
        return Plan.of("iterative-rotations", groups, rotations(groups, budget).sequences)
    paths = [tuple(range(groups))]
    # Each turn multiplies the sequences and keeps one group more of each in place.
    for fixed in range(groups):
        paths = _branch(paths, fixed, budget)
        if len(paths) == budget:
            break
    return Plan.of("iterative-rotations", groups, paths)


def _branch(paths: list[Prefix], fixed: int, budget: int) -> list[Prefix]:
    """Rotate all after the first `fixed` groups of every sequence, as evenly as the budget allows."""
    wanted = min(budget, len(paths) * (len(paths[0]) - fixed))
    share, more = divmod(wanted, len(paths))
    # The sequences that get one rotation more are spread evenly, so that each root has as many.
    with_more = {index * len(paths) // more for index in range(more)}
    branched = []
    for index, path in enumerate(paths):
        count = share + (index in with_more)
        for offset in spread_offsets(len(path) - fixed, count):
            branched.append(path[:fixed] + rotate(path[fixed:], offset))
    return branched
