"""Ruin and recreate improves a tree at its cost, and keeps only what is confirmed."""

from itertools import pairwise

import numpy as np

from fedsgt.plans.tree.level_scores import make_level_scores
from fedsgt.plans.tree.ruin_and_recreate import RuinAndRecreate
from fedsgt.plans.tree.trained_sets import chain_sets, each_has_parent, plan_of


def test_recreating_improves_what_annealing_left_and_keeps_the_cost() -> None:
    scores = make_level_scores(6, None)
    chain = chain_sets(range(6), 10)
    better = RuinAndRecreate(scores, 10, seed=0, effort=0.1).improve(
        chain, lambda sets: True, lambda share: None
    )
    assert better.passes <= 10
    coming = range(1, 10)
    ours, theirs = (np.mean(plan_of(sets).expected_live(coming)) for sets in (better, chain))
    assert ours > theirs + 0.1
    assert all(each_has_parent(above, below) for below, above in pairwise(better.levels[1:]))


def test_recreating_keeps_nothing_that_is_not_confirmed() -> None:
    chain = chain_sets(range(5), 8)
    kept = RuinAndRecreate(make_level_scores(5, None), 8, seed=0, effort=0.1).improve(
        chain, lambda sets: False, lambda share: None
    )
    assert kept.levels == chain.levels
