"""Random groups, the default method: balanced and within the limits, without a look at the data.

Where limits bind, any valid assignment is made random by exchanges. Cut every client's slices into at most
B_i pieces that each lie in one group. Pieces of equal size may then trade places freely: group sizes stay,
and no client is in more groups than it has pieces. The outcome is well mixed, though not exactly uniform over
all valid assignments.
"""

import numpy as np

from fedsgt.errors import InputError
from fedsgt.grouping.problem import Hints, Ints, Problem
from fedsgt.grouping.within_limits import integer_program
from fedsgt.grouping.within_limits.packing import fill, hardest_first, lay_in_line, pack
from fedsgt.words import counted

# Tries to lay clients in a line before packing, and clients packed over all tries of packing.
LINES = 3
MOST_PACKED = 200_000
# Rounds of exchanges, and sizes of pieces that are exchanged in one round: enough to forget the start.
ROUNDS = 4
SIZES_PER_ROUND = 8


def random_groups(problem: Problem, hints: Hints, rng: np.random.Generator) -> Ints:
    """Algorithm 1: permute the slices and cut evenly; where limits bind, mix a valid assignment."""
    if not problem.binding:
        group_of = np.empty(problem.total, dtype=np.int64)
        group_of[rng.permutation(problem.total)] = np.repeat(np.arange(problem.groups), problem.sizes)
        return group_of
    return mix(problem, find_assignment(problem, rng), rng)


def find_assignment(problem: Problem, rng: np.random.Generator) -> Ints:
    """Find some assignment within the limits: clients in a line, else packed, else by integer programme."""
    for _ in range(LINES):
        group_of = lay_in_line(problem, rng.permutation(len(problem.slices)))
        if problem.within_limits(group_of):
            return group_of
    clients = np.flatnonzero(problem.restricted)
    tries = int(np.clip(MOST_PACKED // len(clients), 2, 20))
    # The first try keeps the strict order; later ones blur it more and more.
    for jitter in np.linspace(0.0, 1.0, tries):
        pieces, stuck = pack(problem, hardest_first(problem, clients, rng, float(jitter)))
        if stuck is None:
            return fill(problem, pieces, rng)
    assert stuck is not None
    return _solve_exactly(problem, stuck, rng)


def _solve_exactly(problem: Problem, stuck: int, rng: np.random.Generator) -> Ints:
    """Decide by integer programme; name the client that packing could not place if there is no way."""
    slices, limit = problem.slices[stuck], problem.limits[stuck]
    groups = counted(problem.groups, "group")
    where = f"client {problem.name(stuck)}: {counted(int(slices), 'slice')} in at most {limit} of {groups}"
    try:
        pieces = integer_program.solve(problem)
    except integer_program.Undecided:
        raise InputError(
            f"{where}: no way was found beside the other clients' limits, nor ruled out; raise some limits"
        ) from None
    if pieces is None:
        raise InputError(f"{where}: there is no way beside the other clients' limits; raise some limits")
    return fill(problem, pieces, rng)


def mix(problem: Problem, group_of: Ints, rng: np.random.Generator) -> Ints:
    """Turn a valid assignment into a random one: cut pieces and exchange them, several times over."""
    # A client without a limit may be cut into single slices.
    pieces_allowed = np.where(problem.restricted, problem.limits, problem.slices)
    for _ in range(ROUNDS):
        group_of = _sort_in_clients(problem, group_of)
        starts = _cut(problem, group_of, pieces_allowed, rng)
        lengths = np.diff(starts, append=problem.total)
        group_of = np.repeat(_exchange_pieces(group_of[starts], lengths, rng), lengths)
    # Cutting took neighbours together; now it becomes random which of a client's slices is which.
    shuffled = _shuffle_by(problem.client_of, np.arange(problem.total), rng)
    return _new_numbers(problem, rng)[group_of][shuffled]


def _new_numbers(problem: Problem, rng: np.random.Generator) -> Ints:
    """Return new numbers for groups of the same size: a construction may have favoured low ones."""
    larger = int((problem.sizes == problem.sizes[0]).sum())
    smaller = larger + rng.permutation(problem.groups - larger)
    return np.concatenate([rng.permutation(larger), smaller])


def _sort_in_clients(problem: Problem, group_of: Ints) -> Ints:
    """Put a client's slices of one group side by side; a client's slices are interchangeable here."""
    return np.sort(problem.client_of * problem.groups + group_of) % problem.groups


def _cut(problem: Problem, group_of: Ints, allowed: Ints, rng: np.random.Generator) -> Ints:
    """Return the starts of pieces: changes of client or group, and random ones up to `allowed` a client."""
    client_of = problem.client_of
    # True where a slice continues the piece of the slice before it.
    same = np.append(False, (client_of[1:] == client_of[:-1]) & (group_of[1:] == group_of[:-1]))
    spare = allowed - np.bincount(client_of[~same], minlength=len(allowed))
    inside = _shuffle_by(client_of, np.flatnonzero(same), rng)
    owners = client_of[inside]
    rank = np.arange(len(inside)) - np.searchsorted(owners, owners)
    same[inside[rank < spare[owners]]] = False
    return np.flatnonzero(~same)


def _exchange_pieces(groups: Ints, lengths: Ints, rng: np.random.Generator) -> Ints:
    """Let pieces of one size trade places with each other, and with as many slices that stand alone."""
    groups = groups.copy()
    sizes = rng.permutation(np.unique(lengths[lengths > 1]))[:SIZES_PER_ROUND]
    alone = np.flatnonzero(lengths == 1)
    for size in sizes.tolist():
        whole = np.flatnonzero(lengths == size)
        # A bundle of single slices of one group counts as a piece of this size.
        bundles = _bundles(_shuffle_by(groups, alone, rng), groups, size)
        places = rng.permutation(np.concatenate([groups[whole], groups[bundles[:, 0]]]))
        groups[whole] = places[: len(whole)]
        groups[bundles] = places[len(whole) :, None]
    groups[alone] = rng.permutation(groups[alone])
    return groups


def _bundles(alone: Ints, groups: Ints, size: int) -> Ints:
    """Bundle single slices, ordered by group, into rows of `size` from one group; leave out the rest."""
    held = groups[alone]
    rank = np.arange(len(alone)) - np.searchsorted(held, held)
    full = np.bincount(held, minlength=1) // size * size
    return alone[rank < full[held]].reshape(-1, size)


def _shuffle_by(owner: Ints, items: Ints, rng: np.random.Generator) -> Ints:
    """Return the items ordered by owner, and in random order within each owner."""
    items = rng.permutation(items)
    return items[np.argsort(owner[items], kind="stable")]
