"""Bring a grouping that was built without regard to limits back within them."""

import numpy as np

from fedsgt.grouping.descent.swaps import PARTNERS, Swaps
from fedsgt.grouping.descent.trades import descend_by_pieces
from fedsgt.grouping.problem import Floats, Hints, Ints, Problem
from fedsgt.grouping.within_limits.randomized import any_assignment, random_groups


def settle(
    problem: Problem, vectors: Floats, group_of: Ints, rng: np.random.Generator, sign: float = 1.0
) -> Ints:
    """Exchange slices until limits hold, at the least cost in Eq. 1; else descend from another grouping."""
    if problem.within_limits(group_of):
        return group_of
    swaps = Swaps(problem, vectors, group_of, sign)
    if not _repaired(swaps, rng):
        # What is to be far apart from the whole starts best with clients undivided.
        swaps.load(any_assignment(problem, rng) if sign < 0 else random_groups(problem, Hints(), rng))
        descend_by_pieces(swaps, vectors, rng)
    return swaps.group_of


def _repaired(swaps: Swaps, rng: np.random.Generator) -> bool:
    """One exchange after another, each for the client that is furthest over; False when none helps it."""
    slices = swaps.problem.total
    while (over := swaps.over()).any():
        rows = np.flatnonzero(swaps.problem.client_of == over.argmax())
        columns = np.arange(slices) if slices <= PARTNERS else rng.integers(slices, size=PARTNERS)
        if not _relieve(swaps, over, rows, columns):
            return False
    return True


def _relieve(swaps: Swaps, over: Ints, rows: Ints, columns: Ints) -> bool:
    """The exchange that brings two clients closest to their limits; among equals, the best for Eq. 1."""
    client_of = swaps.problem.client_of
    relief = over[client_of[rows]][:, None] + over[client_of[columns]] - swaps.over_after(rows, columns)
    relief[:, client_of[columns] == client_of[rows[0]]] = 0
    if relief.max() <= 0:
        return False
    changes = np.where(relief == relief.max(), swaps.changes(rows, columns), np.inf)
    row, column = divmod(int(changes.argmin()), changes.shape[1])
    swaps.swap(int(rows[row]), int(columns[column]))
    return True
