"""A plan is a forest: equal prefixes are one module, parents stand first, and cost counts what is trained."""

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsgt.errors import InputError
from fedsgt.plans import NO_MODULES, Plan, rotations
from fedsgt.theory import passes

Paths = list[tuple[int, ...]]

SHARED: Paths = [(0, 1, 2), (0, 1, 3), (2, 0), (0, 1, 2), (2,)]


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    groups = draw(st.integers(1, 5))
    orders = [path[:depth] for path in permutations(range(groups)) for depth in range(1, groups + 1)]
    return Plan.of("drawn", groups, draw(st.lists(st.sampled_from(orders), min_size=1, max_size=8)))


def prefixes(paths: Paths) -> set[tuple[int, ...]]:
    return {path[:depth] for path in paths for depth in range(1, len(path) + 1)}


def test_sequences_stay_as_given() -> None:
    plan = Plan.of("mine", 4, [[0, 1], (3,)])
    assert plan.kind == "mine"
    assert plan.groups == 4
    assert plan.sequences == ((0, 1), (3,))


def test_equal_prefixes_are_trained_once() -> None:
    plan = Plan.of("mine", 4, SHARED)
    assert [module.prefix for module in plan.modules] == [(0,), (0, 1), (0, 1, 2), (0, 1, 3), (2,), (2, 0)]
    assert len(plan.modules) == 6
    assert plan.passes == (1 + 2 + 3 + 3 + 1 + 2) / 4


def test_parents_are_the_prefixes_one_shorter() -> None:
    plan = Plan.of("mine", 4, SHARED)
    assert [module.parent for module in plan.modules] == [-1, 0, 1, 1, -1, 4]
    assert [module.group for module in plan.modules] == [0, 1, 2, 3, 2, 0]
    assert [module.depth for module in plan.modules] == [1, 2, 3, 3, 1, 2]


def test_the_same_set_in_another_order_is_another_module() -> None:
    plan = Plan.of("mine", 2, [(0, 1), (1, 0)])
    assert len(plan.modules) == 4
    assert plan.sets == {0b01: 1, 0b10: 1, 0b11: 2}


def test_roots_are_the_distinct_first_groups() -> None:
    assert Plan.of("mine", 4, [(3, 1), (0, 2), (3, 2)]).roots == (0, 3)


def test_a_repeated_sequence_costs_nothing() -> None:
    once, twice = Plan.of("mine", 3, [(2, 0, 1)]), Plan.of("mine", 3, [(2, 0, 1)] * 2)
    assert twice.modules == once.modules
    assert twice.passes == once.passes == 2


@pytest.mark.parametrize(("groups", "budget"), [(1, 1), (6, 6), (10, 10), (10, 4), (7, 3)])
def test_rotations_cost_what_the_paper_says(groups: int, budget: int) -> None:
    plan = rotations(groups, budget)
    assert Fraction(plan.passes) == passes(groups, budget)
    assert len(plan.modules) == groups * budget


@given(plan=plans())
def test_the_forest_holds_every_prefix_once_and_parents_first(plan: Plan) -> None:
    held = [module.prefix for module in plan.modules]
    assert len(held) == len(set(held))
    assert set(held) == prefixes(list(plan.sequences))
    for index, module in enumerate(plan.modules):
        assert module.prefix[-1] == module.group
        assert module.parent < index
        assert (plan.modules[module.parent].prefix if module.parent >= 0 else ()) == module.prefix[:-1]


@given(plan=plans())
def test_sets_are_those_of_the_prefixes(plan: Plan) -> None:
    expected = {frozenset(module.prefix) for module in plan.modules}
    found = {
        frozenset(g for g in range(plan.groups) if mask >> g & 1): size for mask, size in plan.sets.items()
    }
    assert found == {groups: len(groups) for groups in expected}


@pytest.mark.parametrize("path", [(), (0, 0), (0, 3), (-1, 0), (1, 2, 1)])
def test_a_sequence_that_is_no_order_of_groups_is_refused(path: tuple[int, ...]) -> None:
    with pytest.raises(InputError) as caught:
        Plan.of("mine", 3, [(0, 1, 2), path])
    assert str(caught.value) == f"plan: sequence {list(path)} is not an order of distinct groups 0..2"


def test_a_plan_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match=r"^plan: no sequence; at least one is needed$"):
        Plan.of("mine", 3, [])


def test_plans_compare_by_their_sequences() -> None:
    assert Plan.of("a", 3, [(0, 1)]) == Plan.of("a", 3, [[0, 1]])
    assert Plan.of("a", 3, [(0, 1)]) != Plan.of("a", 3, [(1, 0)])
    assert len({Plan.of("a", 3, [(0, 1)]), Plan.of("a", 3, [(0, 1)])}) == 1


@pytest.mark.parametrize("groups", [1, 4, 30])
def test_a_plan_without_modules_costs_nothing_and_serves_nothing(groups: int) -> None:
    plan = Plan.of(NO_MODULES, groups, ())
    prior = [1.0 / groups] * groups
    assert (plan.modules, plan.roots, plan.sets, plan.passes) == ((), (), {}, 0)
    assert sum(plan.expected_live([0, 1, 5])) == 0
    assert sum(plan.survival([0, 1, 5])) == sum(plan.survival([0, 1, 5], prior)) == 0
    assert plan.deletion_rate() == plan.deletion_rate(prior) == 0
    counts = np.ones((3, groups), dtype=np.int64)
    assert plan.client_rounds(counts).tolist() == plan.client_downloads(counts).tolist() == [0, 0, 0]


def test_only_a_plan_that_trains_nothing_may_have_no_sequence() -> None:
    with pytest.raises(InputError, match=r"^plan: no sequence"):
        Plan.of("rotations", 3, ())
