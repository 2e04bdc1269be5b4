"""Trained sets: every move keeps them trainable, and their levels add up to the plan's exact score."""

import random

import numpy as np
import pytest

from fedsgt.plans import Plan
from fedsgt.plans.scoring.subsets import members
from fedsgt.plans.tree.level_scores import make_level_scores
from fedsgt.plans.tree.trained_sets import TrainedSets, chain_sets, plan_of, rotation_sets

PRIOR = np.array([0.3, 0.05, 0.2, 0.1, 0.25, 0.1])


def wandered(groups: int, moves: int, seed: int) -> TrainedSets:
    """Return the rotations' sets after many accepted moves."""
    rng, sets = random.Random(seed), rotation_sets(groups, range(groups))
    for _ in range(moves):
        sets.replace(sets.propose(rng))
    return sets


def standing(sets: TrainedSets) -> bool:
    """Every set of two groups or more has a parent in the sets."""
    return all(
        any(parent & child == parent for parent in sets.levels[size - 1])
        for size in range(2, sets.groups + 1)
        for child in sets.levels[size]
    )


@pytest.mark.parametrize("seed", range(4))
def test_moves_keep_every_set_standing_on_a_smaller_one(seed: int) -> None:
    rng, sets = random.Random(seed), rotation_sets(6, range(6))
    for _ in range(300):
        sets.replace(sets.propose(rng))
        assert standing(sets)


@pytest.mark.parametrize("seed", range(4))
def test_moves_keep_single_groups_the_full_set_and_no_double(seed: int) -> None:
    sets = wandered(6, 500, seed)
    assert sorted(sets.levels[1]) == [1 << group for group in range(6)]
    assert sets.levels[6] == [0b111111]
    for size, level in enumerate(sets.levels):
        assert len(level) == len(set(level))
        assert all(len(members(mask)) == size for mask in level)


@pytest.mark.parametrize("seed", range(4))
def test_the_cost_is_kept_up_to_date(seed: int) -> None:
    sets, rng = wandered(6, 500, seed), random.Random(seed)
    assert sets.passes == plan_of(sets).passes
    changes = sets.propose(rng)
    expected = sets.passes_with(changes)
    sets.replace(changes)
    assert sets.passes == expected == sets.copy().passes


def test_moves_leave_a_copy_alone() -> None:
    sets = wandered(6, 50, 0)
    twin = sets.copy()
    before = [list(level) for level in twin.levels]
    rng = random.Random(1)
    for _ in range(100):
        sets.replace(sets.propose(rng))
    assert twin.levels == before != sets.levels


@pytest.mark.parametrize("seed", range(4))
def test_a_plan_trains_each_set_of_the_family_once(seed: int) -> None:
    sets = wandered(6, 500, seed)
    plan = plan_of(sets)
    assert set(plan.sets) == {mask for level in sets.levels for mask in level}
    assert len(plan.modules) == len(plan.sets)


@pytest.mark.parametrize("seed", range(4))
def test_sequences_are_the_paths_to_the_leaves_longest_first(seed: int) -> None:
    plan = plan_of(wandered(6, 500, seed))
    parents = {module.prefix[:-1] for module in plan.modules}
    assert set(plan.sequences) == {module.prefix for module in plan.modules if module.prefix not in parents}
    assert sorted(plan.sequences, key=len, reverse=True) == list(plan.sequences)
    assert len(plan.sequences[0]) == 6


def test_the_rotations_family_trains_their_sets() -> None:
    for starts in (range(5), [0, 2]):
        paths = [tuple((start + step) % 5 for step in range(5)) for start in starts]
        arcs, singles = Plan.of("arcs", 5, paths).sets, {1 << group: 1 for group in range(5)}
        assert plan_of(rotation_sets(5, starts)).sets == arcs | singles


@pytest.mark.parametrize(
    ("passes", "singles"), [(3.0, [2]), (3.19, [2]), (3.2, [2, 0]), (3.7, [2, 0, 4, 1]), (9, 5)]
)
def test_a_chain_takes_the_order_given_and_as_many_roots_as_it_can_pay(
    passes: float, singles: list[int] | int
) -> None:
    sets = chain_sets([2, 0, 4, 1, 3], passes)
    roots = [members(mask)[0] for mask in sets.levels[1]]
    assert roots == ([2, 0, 4, 1, 3] if singles == 5 else singles)
    assert [members(mask) for (mask,) in sets.levels[2:]] == [
        [0, 2],
        [0, 2, 4],
        [0, 1, 2, 4],
        [0, 1, 2, 3, 4],
    ]
    assert sets.passes <= passes


@pytest.mark.parametrize("prior", [None, PRIOR], ids=["uniform", "prior"])
@pytest.mark.parametrize("seed", range(3))
def test_levels_add_up_to_the_plans_exact_score(prior: np.ndarray | None, seed: int) -> None:
    sets, scores = wandered(6, 500, seed), make_level_scores(6, prior)
    total = sum((scores.measure(level) for level in sets.levels[1:]), scores.zero)
    expected = plan_of(sets).expected_live(scores.requests, prior)
    assert scores.curve(total).tolist() == pytest.approx(expected, abs=1e-12)
