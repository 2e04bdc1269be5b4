"""Random exchanges that keep group sizes and limits: they turn one valid assignment into a random one.

Cut every client's slices into at most B_i pieces that each lie in one group. Pieces of equal size may then
trade places however they like: sizes stay, and nobody is in more groups than it has pieces.
The outcome is well mixed, though not exactly uniform over all valid assignments.
"""

import numpy as np

from fedsgt.grouping.problem import Ints, Problem

ROUNDS = 4
SIZES_PER_ROUND = 8


def mix(problem: Problem, group_of: Ints, rng: np.random.Generator) -> Ints:
    """Rounds of cutting anew and trading; at last, which of a client's slices is which is random too."""
    pieces_allowed = np.where(problem.restricted, problem.limits, problem.slices)
    for _ in range(ROUNDS):
        group_of = _sorted_in_clients(problem, group_of)
        starts = _cut(problem, group_of, pieces_allowed, rng)
        lengths = np.diff(starts, append=problem.total)
        group_of = np.repeat(_trade(group_of[starts], lengths, rng), lengths)
    shuffled = _shuffled_by(problem.client_of, np.arange(problem.total), rng)
    return _renamed(problem, rng)[group_of][shuffled]


def _renamed(problem: Problem, rng: np.random.Generator) -> Ints:
    """New numbers for groups of the same size: a construction may have favoured low ones."""
    larger = int((problem.sizes == problem.sizes[0]).sum())
    smaller = larger + rng.permutation(problem.groups - larger)
    return np.concatenate([rng.permutation(larger), smaller])


def _sorted_in_clients(problem: Problem, group_of: Ints) -> Ints:
    """One client's slices are interchangeable here, so let those in one group stand together."""
    return np.sort(problem.client_of * problem.groups + group_of) % problem.groups


def _cut(problem: Problem, group_of: Ints, allowed: Ints, rng: np.random.Generator) -> Ints:
    """Where pieces start: wherever client or group change, and at random up to `allowed` per client."""
    client_of = problem.client_of
    same = np.append(False, (client_of[1:] == client_of[:-1]) & (group_of[1:] == group_of[:-1]))
    spare = allowed - np.bincount(client_of[~same], minlength=len(allowed))
    inside = _shuffled_by(client_of, np.flatnonzero(same), rng)
    owners = client_of[inside]
    rank = np.arange(len(inside)) - np.searchsorted(owners, owners)
    same[inside[rank < spare[owners]]] = False
    return np.flatnonzero(~same)


def _trade(groups: Ints, lengths: Ints, rng: np.random.Generator) -> Ints:
    """Pieces of one size trade places with each other, and with as many slices that stand alone."""
    groups = groups.copy()
    sizes = rng.permutation(np.unique(lengths[lengths > 1]))[:SIZES_PER_ROUND]
    alone = np.flatnonzero(lengths == 1)
    for size in sizes.tolist():
        whole = np.flatnonzero(lengths == size)
        bundles = _bundles(_shuffled_by(groups, alone, rng), groups, size)
        places = rng.permutation(np.concatenate([groups[whole], groups[bundles[:, 0]]]))
        groups[whole] = places[: len(whole)]
        groups[bundles] = places[len(whole) :, None]
    groups[alone] = rng.permutation(groups[alone])
    return groups


def _bundles(alone: Ints, groups: Ints, size: int) -> Ints:
    """Rows of `size` slices of one group, from single ones ordered by group; the rest are in no row."""
    held = groups[alone]
    rank = np.arange(len(alone)) - np.searchsorted(held, held)
    full = np.bincount(held, minlength=1) // size * size
    return alone[rank < full[held]].reshape(-1, size)


def _shuffled_by(owner: Ints, items: Ints, rng: np.random.Generator) -> Ints:
    """The items by owner, in random order for each."""
    items = rng.permutation(items)
    return items[np.argsort(owner[items], kind="stable")]
