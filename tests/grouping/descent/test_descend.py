"""A grouping that breaks limits is brought within them by few exchanges."""

import numpy as np
from label_mixes import by_client

from fedsgt.grouping import make
from fedsgt.grouping.descent.descend import bring_within_limits
from fedsgt.grouping.problem import read_problem


def test_repair_keeps_sizes_and_most_of_the_grouping() -> None:
    problem = read_problem([5] * 10, 10, [4] + [None] * 9)
    vectors = by_client(0)
    free = make("centered", [5] * 10, 10, embeddings=vectors).group_of
    start = free if problem.spread(free)[0] > 4 else make("bac", [5] * 10, 10, embeddings=vectors).group_of
    assert not problem.within_limits(start)
    settled = bring_within_limits(problem, vectors, start, np.random.default_rng(0))
    assert problem.within_limits(settled)
    assert (np.bincount(settled) == 5).all()
    assert (settled != start).sum() == 2
