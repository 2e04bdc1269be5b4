"""Decide by integer programme whether an assignment within the limits exists, and find one.

There are two formulations, by pattern and by client; the smaller one is solved. Only restricted clients take
part, because the slices of the others fit one by one into any room that is left.
"""

from collections.abc import Iterator

import numpy as np

from fedsgt.grouping.problem import Floats, Ints, Problem
from fedsgt.grouping.within_limits.packing import Pieces

# Above this the solver would need minutes; the answer is then `Undecided`.
MOST_VARIABLES = 60_000
# A client in more pieces than this can be cut in too many ways to list them.
MOST_PIECES = 100
SECONDS = 30.0
INFEASIBLE = 2  # the status by which scipy reports it

# One way to cut a client: the sizes of its pieces, descending.
Pattern = tuple[int, ...]
# Restricted clients by (slices, limit): clients of one kind are interchangeable.
Kinds = dict[tuple[int, int], list[int]]
# Row, column and value of the entries of the constraint matrix.
Terms = list[tuple[int, int, float]]


class Undecided(Exception):
    """The problem is too large, or too hard for the time allowed."""


def solve(problem: Problem) -> Pieces | None:
    """Return pieces of the restricted clients within sizes and limits; None if there provably are none."""
    kinds = kinds_of(problem)
    cells = 2 * int(problem.restricted.sum()) * problem.groups
    patterns = patterns_of(kinds, problem, min(cells, MOST_VARIABLES))
    # Patterns are few if clients are alike; otherwise one variable for each client and group is smaller.
    if patterns is not None:
        return solve_by_pattern(problem, kinds, patterns)
    if cells > MOST_VARIABLES:
        raise Undecided
    return solve_by_client(problem)


def kinds_of(problem: Problem) -> Kinds:
    """Return the restricted clients by kind."""
    kinds: Kinds = {}
    for client in np.flatnonzero(problem.restricted).tolist():
        kinds.setdefault((int(problem.slices[client]), int(problem.limits[client])), []).append(client)
    return kinds


def patterns_of(kinds: Kinds, problem: Problem, room: int) -> list[tuple[int, Pattern]] | None:
    """Return every (kind, way to cut it); None if that would make more than `room` variables."""
    found: list[tuple[int, Pattern]] = []
    pieces: set[int] = set()
    if max(limit for _, limit in kinds) > MOST_PIECES:
        return None
    for kind, (size, limit) in enumerate(kinds):
        # Cutting a piece in two inside its group changes nothing, so exactly B_i pieces are general enough.
        for pattern in cuts(size, limit, int(problem.sizes[0])):
            found.append((kind, pattern))
            pieces.update(pattern)
            if len(found) + len(pieces) * problem.groups > room:
                return None
    return found


def cuts(size: int, parts: int, largest: int) -> Iterator[Pattern]:
    """Yield all ways to cut `size` into exactly `parts` pieces of 1..largest, pieces descending."""
    if parts == 1:
        if 1 <= size <= largest:
            yield (size,)
        return
    for piece in range(min(largest, size - parts + 1), (size - 1) // parts, -1):
        for rest in cuts(size - piece, parts - 1, piece):
            yield (piece, *rest)


def solve_by_pattern(problem: Problem, kinds: Kinds, patterns: list[tuple[int, Pattern]]) -> Pieces | None:
    """Solve for how many clients of a kind are cut which way, and how many pieces of a size each group has.

    The number of unknowns does not grow with the number of clients.
    """
    sizes = sorted({piece for _, pattern in patterns for piece in pattern})
    wanted = np.array([len(clients) for clients in kinds.values()] + [0] * len(sizes))
    counts = _whole_numbers(
        _pattern_terms(problem, len(kinds), patterns, sizes),
        low=np.concatenate([wanted, np.zeros(problem.groups)]),
        high=np.concatenate([wanted, problem.sizes]),
        most=np.full(len(patterns) + problem.groups * len(sizes), np.inf),
    )
    if counts is None:
        return None
    held = counts[len(patterns) :].reshape(problem.groups, len(sizes))
    # Groups that have room for a piece, by the size of the piece; a group is listed once for each piece.
    slots = {size: np.repeat(np.arange(problem.groups), held[:, k]).tolist() for k, size in enumerate(sizes)}
    return _hand_out(list(kinds.values()), patterns, counts[: len(patterns)], slots)


def _pattern_terms(
    problem: Problem, kinds: int, patterns: list[tuple[int, Pattern]], sizes: list[int]
) -> Terms:
    """Return the constraints: each client of a kind is cut, each piece is placed, no group is overfull."""
    row_of = {size: kinds + k for k, size in enumerate(sizes)}
    terms: Terms = []
    for column, (kind, pattern) in enumerate(patterns):
        terms.append((kind, column, 1.0))
        terms += [(row_of[size], column, float(pattern.count(size))) for size in set(pattern)]
    for group in range(problem.groups):
        for k, size in enumerate(sizes):
            column = len(patterns) + group * len(sizes) + k
            terms += [(row_of[size], column, -1.0), (kinds + len(sizes) + group, column, float(size))]
    return terms


def _hand_out(
    clients: list[list[int]], patterns: list[tuple[int, Pattern]], times: Ints, slots: dict[int, list[int]]
) -> Pieces:
    """Give each client of a kind one of the chosen patterns, and each piece a place of its size."""
    waiting = [iter(kind) for kind in clients]
    pieces = Pieces()
    for (kind, pattern), count in zip(patterns, times.tolist(), strict=True):
        for _ in range(count):
            pieces.add(next(waiting[kind]), [(slots[size].pop(), size) for size in pattern])
    return pieces


def solve_by_client(problem: Problem) -> Pieces | None:
    """Solve for x_ig, the slices of client i in group g, and y_ig, whether client i is in group g at all."""
    clients = np.flatnonzero(problem.restricted)
    count, cells = len(clients), len(clients) * problem.groups
    slices = problem.slices[clients]
    numbers = _whole_numbers(
        _client_terms(problem, clients),
        low=np.concatenate([slices, np.full(cells, -np.inf), np.zeros(count + problem.groups)]),
        high=np.concatenate([slices, np.zeros(cells), problem.limits[clients], problem.sizes]),
        most=np.repeat([np.inf, 1.0], cells),
    )
    if numbers is None:
        return None
    placed = numbers[:cells].reshape(count, problem.groups)
    rows, groups = np.nonzero(placed)
    return Pieces(clients[rows].tolist(), groups.tolist(), placed[rows, groups].tolist())


def _client_terms(problem: Problem, clients: Ints) -> Terms:
    """Return the constraints: all slices placed, x_ig = 0 where y_ig = 0, limits, no group overfull."""
    count, cells = len(clients), len(clients) * problem.groups
    terms: Terms = []
    for i, client in enumerate(clients):
        for group, size in enumerate(problem.sizes):
            x = i * problem.groups + group
            y, most = cells + x, float(min(problem.slices[client], size))
            terms += [(i, x, 1.0), (count + x, x, 1.0), (count + x, y, -most)]
            terms += [(count + cells + i, y, 1.0), (2 * count + cells + group, x, 1.0)]
    return terms


def _whole_numbers(terms: Terms, low: Floats, high: Floats, most: Floats) -> Ints | None:
    """Return whole numbers x from 0 to `most` with low <= A x <= high; None if there are none."""
    from scipy.optimize import Bounds, LinearConstraint, milp  # half a second to import, seldom needed
    from scipy.sparse import coo_array

    rows, columns, values = zip(*terms, strict=True)
    matrix = coo_array((values, (rows, columns)), shape=(len(low), len(most))).tocsr()
    # No objective: any point that satisfies the constraints will do.
    answer = milp(
        np.zeros(len(most)),
        integrality=np.ones(len(most), dtype=np.int64),
        bounds=Bounds(np.zeros(len(most)), most),
        constraints=LinearConstraint(matrix, low, high),
        options={"time_limit": SECONDS},
    )
    if answer.status == INFEASIBLE:
        return None
    if answer.x is None:
        raise Undecided
    numbers: Ints = np.rint(answer.x).astype(np.int64)
    reached = matrix @ numbers
    # The solver works with tolerances, so check that its rounded answer holds exactly.
    if (reached < low).any() or (reached > high).any():
        raise Undecided
    return numbers
