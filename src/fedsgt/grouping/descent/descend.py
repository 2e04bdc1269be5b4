"""Descend on Eq. 1 by exchanging slices or whole pieces, and bring a grouping back within its limits."""

import numpy as np

from fedsgt.grouping.descent.swaps import ALL, PARTNERS, Some, Swaps
from fedsgt.grouping.problem import Floats, Hints, Ints, Problem
from fedsgt.grouping.result import group_sums
from fedsgt.grouping.within_limits.random_assignment import find_assignment, random_groups

# Steps of one descent, and steps without a gain after which it ends.
STEPS = 10_000
PATIENCE = 200
# Turns between single slices and pieces.
MOST_TURNS = 8


def descend_with_pieces(swaps: Swaps, vectors: Floats, rng: np.random.Generator) -> None:
    """Exchange single slices, then whole pieces, and so on as long as pieces still help.

    A client at its limit can rarely move one slice, but all that it has in a group can trade places with as
    many slices of another client.
    """
    descend(swaps, rng)
    for _ in range(MOST_TURNS if swaps.problem.binding else 0):
        before = swaps.value()
        swaps.load(_exchange_pieces(swaps, vectors, rng))
        descend(swaps, rng)
        if swaps.value() >= before - swaps.rounding():
            return


def descend(swaps: Swaps, rng: np.random.Generator) -> None:
    """Make the best exchange in sight, again and again, until none helps any slice."""
    slices = len(swaps.group_of)
    lots = _lots(slices, swaps.pairs_per_step(), rng)
    # With sampled partners the best exchange is seldom seen, so tiny gains are not worth a step each.
    least = max(swaps.rounding(), (1e-5 if slices > PARTNERS else 1e-9) * abs(swaps.value()))
    without_gain = 0
    for step in range(STEPS):
        partners = ALL if slices <= PARTNERS else rng.integers(slices, size=PARTNERS)
        without_gain = 0 if _improve(swaps, lots[step % len(lots)], partners, least) else without_gain + 1
        if without_gain == min(len(lots), PATIENCE):
            return


def _lots(slices: int, pairs: int, rng: np.random.Generator) -> list[Some]:
    """Cut the slices into random lots so that one lot with its partners makes about `pairs` pairs."""
    lots = min(slices, -(-slices * min(slices, PARTNERS) // pairs))
    return [ALL] if lots == 1 else list(np.array_split(rng.permutation(slices), lots))


def _improve(swaps: Swaps, rows: Some, columns: Some, least: float) -> bool:
    """Make the best allowed exchange of a row's slice with a column's, if it gains at least this much."""
    changes = swaps.allowed_changes(rows, columns)
    row, column = divmod(int(changes.argmin()), changes.shape[1])
    if changes[row, column] >= -least:
        return False
    swaps.swap(_number(rows, row), _number(columns, column))
    return True


def _number(some: Some, place: int) -> int:
    return place if isinstance(some, slice) else int(some[place])


def _exchange_pieces(swaps: Swaps, vectors: Floats, rng: np.random.Generator) -> Ints:
    """Descend with pieces in place of slices, and return the group of every slice.

    A piece is all that one client has in one group, so no client comes into more groups by trading one.
    """
    problem = swaps.problem
    cells, piece_of = np.unique(problem.client_of * problem.groups + swaps.group_of, return_inverse=True)
    # Each piece counts as a client of its own that is in one group, so limits never forbid an exchange.
    each = np.ones(len(cells), dtype=np.int64)
    pieces = Swaps(
        Problem(each, problem.groups, each),
        group_sums(piece_of, vectors - vectors.mean(axis=0), len(cells)),
        cells % problem.groups,
        swaps.sign,
        np.bincount(piece_of),
    )
    descend(pieces, rng)
    return pieces.group_of[piece_of]


def bring_within_limits(
    problem: Problem, vectors: Floats, group_of: Ints, rng: np.random.Generator, sign: float = 1.0
) -> Ints:
    """Exchange slices until the limits hold, at the least cost in Eq. 1.

    If exchanges alone do not get there, descend from another assignment that is within the limits.
    """
    if problem.within_limits(group_of):
        return group_of
    swaps = Swaps(problem, vectors, group_of, sign)
    if not _relieve_all(swaps, rng):
        # With sign -1 groups should differ from the whole: a start with undivided clients is nearest to that.
        swaps.load(find_assignment(problem, rng) if sign < 0 else random_groups(problem, Hints(), rng))
        descend_with_pieces(swaps, vectors, rng)
    return swaps.group_of


def _relieve_all(swaps: Swaps, rng: np.random.Generator) -> bool:
    """Relieve the client that is furthest over its limit until none is; False if no exchange helps it."""
    slices = swaps.problem.total
    # Each exchange lowers the total excess by at least one, so this ends.
    while (over := swaps.over()).any():
        rows = np.flatnonzero(swaps.problem.client_of == over.argmax())
        columns = np.arange(slices) if slices <= PARTNERS else rng.integers(slices, size=PARTNERS)
        if not _relieve(swaps, over, rows, columns):
            return False
    return True


def _relieve(swaps: Swaps, over: Ints, rows: Ints, columns: Ints) -> bool:
    """Make the exchange that brings two clients closest to their limits; on a tie, the best for Eq. 1."""
    client_of = swaps.problem.client_of
    relief = over[client_of[rows]][:, None] + over[client_of[columns]] - swaps.over_after(rows, columns)
    # Two slices of one client may trade places, but that leaves the client where it was.
    relief[:, client_of[columns] == client_of[rows[0]]] = 0
    if relief.max() <= 0:
        return False
    changes = np.where(relief == relief.max(), swaps.changes(rows, columns), np.inf)
    row, column = divmod(int(changes.argmin()), changes.shape[1])
    swaps.swap(int(rows[row]), int(columns[column]))
    return True
