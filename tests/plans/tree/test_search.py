"""Tree plans: never below rotations, at far less cost, each set of groups trained once."""

import random
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsgt.errors import InputError
from fedsgt.plans import Plan, make, rotations
from fedsgt.plans.greedy import greedy
from fedsgt.plans.scoring.scores import horizon, uniform_live
from fedsgt.plans.tree.search import tree
from fedsgt.window import Window

KNOWN = {6: 14.5, 8: 24.2, 10: 34.2}  # passes that are known to be enough
SHORT = 0.2  # of the usual search: enough for the claims, and quick
SKEWED = np.array([0.3, 0.05, 0.2, 0.1, 0.25, 0.1])


@cache
def found(groups: int) -> Plan:
    return tree(groups, effort=SHORT)


def mean_live(plan: Plan, prior: NDArray[np.float64] | None = None) -> float:
    return float(np.mean(plan.expected_live(range(1, 16), prior)))


def assert_nowhere_below(plan: Plan, other: Plan, requests: int = 60) -> None:
    for count in range(requests + 1):
        assert uniform_live(plan, count) >= uniform_live(other, count), f"after {count} requests"


def assert_sound(plan: Plan) -> None:
    """Every set once, every group a root, the full model there."""
    assert len(plan.sets) == len(plan.modules)
    assert plan.roots == tuple(range(plan.groups))
    assert (1 << plan.groups) - 1 in plan.sets


@pytest.mark.parametrize("groups", KNOWN)
def test_live_groups_are_nowhere_below_those_of_rotations(groups: int) -> None:
    assert_nowhere_below(found(groups), rotations(groups), 200)


@pytest.mark.parametrize("groups", KNOWN)
def test_the_cost_is_what_is_known_to_be_reachable(groups: int) -> None:
    assert found(groups).passes <= KNOWN[groups] < rotations(groups).passes


@pytest.mark.parametrize("groups", KNOWN)
def test_each_set_is_trained_once_and_each_group_is_a_root(groups: int) -> None:
    assert_sound(found(groups))


@pytest.mark.parametrize("groups", KNOWN)
def test_every_sequence_leads_to_a_leaf(groups: int) -> None:
    plan = found(groups)
    inner = {module.prefix[:-1] for module in plan.modules}
    assert not inner & set(plan.sequences)
    assert len(set(plan.sequences)) == len(plan.sequences)


@pytest.mark.slow
@pytest.mark.parametrize("groups", KNOWN)
def test_the_usual_search_does_no_worse_than_the_short_one(groups: int) -> None:
    plan = make("tree", groups)
    assert_sound(plan)
    assert_nowhere_below(plan, rotations(groups), 200)
    assert plan.passes <= found(groups).passes


@pytest.mark.parametrize("seed", [0, 5])
def test_a_seed_always_gives_the_same_plan(seed: int) -> None:
    first = tree(6, seed=seed, effort=0.02)
    random.seed(99)
    np.random.default_rng().random(5)
    assert tree(6, seed=seed, effort=0.02) == first


def test_a_search_says_how_far_it_is_and_is_not_changed_by_it() -> None:
    seen: list[float] = []
    assert tree(6, effort=0.05, progress=seen.append) == tree(6, effort=0.05)
    assert seen[0] == 0
    assert seen == sorted(seen)
    assert 0.5 < seen[-1] < 1


def test_as_many_passes_as_rotations_keep_far_more_live() -> None:
    plan = tree(10, passes=52.5, effort=0.1)
    assert plan.passes <= 52.5
    assert len(plan.sets) == len(plan.modules)
    assert mean_live(plan) >= 3.70
    assert round(mean_live(rotations(10)), 3) == 3.234


@pytest.mark.slow
def test_the_usual_search_with_as_many_passes_as_rotations() -> None:
    plan = make("tree", 10, passes=52.5)
    assert plan.passes <= 52.5
    assert mean_live(plan) >= 3.76


@pytest.mark.parametrize("passes", [3.5, 4, 8, 14, 25])
def test_passes_bound_the_cost_and_are_worth_it(passes: float) -> None:
    plan = tree(6, passes=passes, effort=0.02)
    assert plan.passes <= passes
    assert len(plan.sets) == len(plan.modules)
    assert mean_live(plan) >= mean_live(make("rotations", 6, passes=passes)) - 1e-12


@pytest.mark.parametrize("budget", [1, 2, 3, 5])
def test_a_budget_asks_for_no_more_than_as_many_rotations(budget: int) -> None:
    plan = tree(7, budget, effort=0.03)
    assert_sound(plan)
    assert_nowhere_below(plan, rotations(7, budget), 100)
    assert plan.passes <= tree(7, budget + 1, effort=0.03).passes


def test_a_budget_above_the_groups_asks_for_all_rotations() -> None:
    assert tree(5, 9, effort=0.02) == tree(5, 5, effort=0.02) == tree(5, effort=0.02)


def test_budget_and_passes_spend_the_rest_above_the_floor() -> None:
    plan, cheapest = tree(6, 6, passes=18, effort=0.05), tree(6, 6, effort=0.05)
    assert_sound(plan)
    assert_nowhere_below(plan, rotations(6), 100)
    assert cheapest.passes < plan.passes <= 18
    assert mean_live(plan) > mean_live(cheapest) + 0.05


def test_budget_and_just_enough_passes() -> None:
    cheapest = tree(6, 4, effort=0.05)
    plan = tree(6, 4, passes=cheapest.passes, effort=0.05)
    assert plan.passes <= cheapest.passes
    assert_nowhere_below(plan, rotations(6, 4))


@pytest.mark.parametrize(("groups", "budget", "passes"), [(6, 6, 10.0), (2, 2, 1.5), (17, 17, 60.0)])
def test_passes_too_few_to_equal_rotations_are_refused(groups: int, budget: int, passes: float) -> None:
    with pytest.raises(InputError) as caught:
        tree(groups, budget, passes=passes, effort=0.02)
    message = str(caught.value)
    assert message.startswith(f"passes: {passes:g} is too little for a tree as good as {budget} rotations; ")
    enough = float(message.split("; ")[1].removesuffix(" is enough"))
    assert_nowhere_below(
        tree(groups, budget, passes=enough + 0.01, effort=0.02), rotations(groups, budget), 5
    )


def test_a_prior_moves_the_floor() -> None:
    plan = tree(6, prior=SKEWED, effort=0.1)
    ours, theirs = plan.expected_live(range(61), SKEWED), rotations(6).expected_live(range(61), SKEWED)
    assert all(one >= other - 1e-9 for one, other in zip(ours, theirs, strict=True))
    assert_sound(plan)
    assert plan.passes < 15


def test_a_prior_and_passes_keep_more_live_than_without_the_prior() -> None:
    informed, blind = tree(6, prior=SKEWED, passes=10, effort=0.1), tree(6, passes=10, effort=0.1)
    assert informed.passes <= 10
    assert mean_live(informed, SKEWED) > mean_live(blind, SKEWED)


def test_few_passes_start_with_the_groups_least_likely_to_be_hit() -> None:
    least = tuple(np.argsort(SKEWED, kind="stable").tolist())
    assert tree(6, prior=SKEWED, passes=3.5, effort=0.05).roots == least[:1]
    plan = tree(6, prior=SKEWED, passes=4, effort=0.05)
    assert plan.roots == tuple(sorted(least[:4]))
    alone = greedy(6, 1, SKEWED)
    assert sum(plan.expected_live(horizon(6), SKEWED)) > sum(alone.expected_live(horizon(6), SKEWED))


@pytest.mark.parametrize(("groups", "sequences"), [(1, {(0,)}), (2, {(0, 1), (1,)})])
def test_the_smallest_trees(groups: int, sequences: set[tuple[int, ...]]) -> None:
    assert set(tree(groups).sequences) == sequences
    assert_nowhere_below(tree(groups), rotations(groups))


def test_three_groups() -> None:
    plan = tree(3, effort=0.05)
    assert_sound(plan)
    assert_nowhere_below(plan, rotations(3))
    assert Fraction(plan.passes).limit_denominator(3) == Fraction(12, 3)


@pytest.mark.parametrize("groups", [17, 18])
def test_many_groups_take_the_arcs_of_the_rotations(groups: int) -> None:
    plan = tree(groups)
    assert_sound(plan)
    assert set(plan.sets) == set(rotations(groups).sets)
    assert_nowhere_below(plan, rotations(groups))
    assert plan.passes == pytest.approx(groups * (groups - 1) / 2 + 1)


@pytest.mark.parametrize("passes", [9.0, 30.0, 100.0])
def test_many_groups_within_few_passes(passes: float) -> None:
    plan = tree(17, passes=passes)
    assert plan.passes <= passes
    assert (1 << 17) - 1 in plan.sets


def test_many_groups_with_few_rotations() -> None:
    plan = tree(19, 3)
    assert_sound(plan)
    assert plan.passes < rotations(19, 3).passes
    assert_nowhere_below(plan, rotations(19, 3), 30)


@pytest.mark.parametrize("window", [1, 2, "own"])
def test_a_window_lets_more_modules_into_as_many_passes(window: Window) -> None:
    plain, found = tree(6, passes=6, effort=0.05), tree(6, passes=6, effort=0.05, window=window)
    assert found.window == window
    assert found.passes <= 6 + 1e-9
    assert len(found.modules) > len(plain.modules)
    assert sum(found.expected_live(range(1, 16))) > sum(plain.expected_live(range(1, 16)))


def test_a_window_of_all_groups_changes_no_tree() -> None:
    assert tree(5, passes=7, effort=0.05, window=5).sequences == tree(5, passes=7, effort=0.05).sequences
    assert tree(5, effort=0.05, window=9).sequences == tree(5, effort=0.05).sequences
