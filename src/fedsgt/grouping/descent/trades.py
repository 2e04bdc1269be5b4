"""Descent where limits bind: single slices are exchanged, and whole pieces of clients too."""

import numpy as np

from fedsgt.grouping.descent.swaps import Swaps, descend
from fedsgt.grouping.problem import Floats, Ints, Problem
from fedsgt.grouping.result import group_sums

MOST_TURNS = 8


def descend_by_pieces(swaps: Swaps, vectors: Floats, rng: np.random.Generator) -> None:
    """Exchange single slices, then pieces, and so on while pieces still help.

    A client at its limit can rarely move one slice, but all it has in a group can trade places with as many
    slices of another client.
    """
    descend(swaps, rng)
    for _ in range(MOST_TURNS if swaps.problem.binding else 0):
        before = swaps.value()
        swaps.load(_trade_pieces(swaps, vectors, rng))
        descend(swaps, rng)
        if swaps.value() >= before - swaps.rounding():
            return


def _trade_pieces(swaps: Swaps, vectors: Floats, rng: np.random.Generator) -> Ints:
    """A piece is all that one client has in one group, so nobody comes into more groups by trading it."""
    problem = swaps.problem
    cells, piece_of = np.unique(problem.client_of * problem.groups + swaps.group_of, return_inverse=True)
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
