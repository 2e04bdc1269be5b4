"""Groups that each look like the whole: descent by exchanges, with restarts, on the paper's objective."""

import numpy as np

from fedsgt.grouping.bac import bac_groups
from fedsgt.grouping.descent.descend import descend_with_pieces
from fedsgt.grouping.descent.swaps import Swaps
from fedsgt.grouping.problem import Hints, Ints, Problem, read_embeddings
from fedsgt.grouping.within_limits.random_assignment import random_groups

MOST_RESTARTS = 100
# Restarts pay if slices are few; with many, one descent already comes close to zero.
PAIRS_OVER_RESTARTS = 500_000


def centered_groups(problem: Problem, hints: Hints, rng: np.random.Generator) -> Ints:
    """Minimise Eq. 1 under Eq. 2 and 3: descend from BAC's groups, then from the best so far, shaken."""
    vectors = read_embeddings(hints.embeddings, problem.total)
    swaps = Swaps(problem, vectors, bac_groups(problem, hints, rng))
    descend_with_pieces(swaps, vectors, rng)
    best, least = swaps.group_of, swaps.value()
    for restart in range(min(MOST_RESTARTS, PAIRS_OVER_RESTARTS // problem.total**2)):
        # Limits cut the space into parts that exchanges do not leave, so half of the restarts begin afresh.
        if problem.binding and restart % 2 == 0:
            swaps.load(random_groups(problem, hints, rng))
        else:
            swaps.load(best)
            _shake(swaps, rng)
        descend_with_pieces(swaps, vectors, rng)
        # Strictly less, so that on a tie the earlier grouping stays and the result depends on the seed alone.
        if swaps.value() < least:
            best, least = swaps.group_of, swaps.value()
    return best


def _shake(swaps: Swaps, rng: np.random.Generator) -> None:
    """Exchange about a third of the slices at random, as far as limits allow."""
    slices = swaps.problem.total
    for first, second in rng.integers(slices, size=(max(2, slices // 6), 2)).tolist():
        over = swaps.problem.binding and swaps.over_after(np.array([first]), np.array([second])).any()
        if not over:
            swaps.swap(first, second)
