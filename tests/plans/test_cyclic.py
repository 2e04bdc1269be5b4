"""Rotations, and S3T's iterative ones: the paper's order, the best offsets, and what lies beyond B = L."""

from collections import Counter
from fractions import Fraction
from itertools import combinations, permutations

import pytest

from fedsgt.errors import InputError
from fedsgt.plans import Plan, make, rotations, select
from fedsgt.plans.cyclic import iterative_rotations, spread_offsets
from fedsgt.plans.scoring.scores import uniform_live
from fedsgt.theory import expected_live_offsets

REQUESTS = range(1, 16)


def as_text(plan: Plan) -> list[str]:
    return ["".join(map(str, path)) for path in plan.sequences]


def mean_of_offsets(groups: int, offsets: tuple[int, ...]) -> Fraction:
    return sum((expected_live_offsets(groups, offsets, count) for count in REQUESTS), Fraction(0)) / 15


def mean_live(plan: Plan) -> Fraction:
    return sum((uniform_live(plan, count) for count in REQUESTS), Fraction(0)) / 15


def test_the_papers_example() -> None:
    assert as_text(rotations(6)) == ["012345", "501234", "450123", "345012", "234501", "123450"]
    assert make("rotations", 6, 6) == rotations(6)


def test_fewer_rotations_are_spread_evenly() -> None:
    assert as_text(rotations(6, 3)) == ["012345", "450123", "234501"]
    assert spread_offsets(10, 4) == [0, 3, 6, 8]
    assert as_text(rotations(6, 1)) == ["012345"]


@pytest.mark.parametrize("budget", range(1, 8))
def test_spread_offsets_are_the_best_of_all_choices(budget: int) -> None:
    best = max(mean_of_offsets(8, (0, *rest)) for rest in combinations(range(1, 8), budget - 1))
    assert mean_live(rotations(8, budget)) == best


def test_given_offsets_are_taken() -> None:
    assert as_text(rotations(5, offsets=[0, 2, 12])) == ["01234", "34012", "34012"]


@pytest.mark.parametrize("budget", range(2, 7))
def test_the_first_rotations_are_the_papers_and_worse(budget: int) -> None:
    first = make("rotations-first", 8, budget)
    assert first.sequences == rotations(8).sequences[:budget]
    assert mean_live(first) == mean_of_offsets(8, tuple(range(budget)))
    assert mean_live(first) < mean_live(rotations(8, budget))


def test_the_first_rotations_are_no_worse_where_there_is_no_choice() -> None:
    assert mean_live(make("rotations-first", 8, 7)) == mean_live(rotations(8, 7))
    assert make("rotations-first", 8).sequences == rotations(8).sequences


@pytest.mark.parametrize("budget", [6, 8, 10, 13])
def test_more_rotations_than_groups_add_nothing(budget: int) -> None:
    more, all_of_them = rotations(5, budget), rotations(5)
    assert len(more.sequences) == budget
    assert more.modules == all_of_them.modules
    assert more.passes == all_of_them.passes
    assert [uniform_live(more, count) for count in range(20)] == [
        uniform_live(all_of_them, count) for count in range(20)
    ]


@pytest.mark.parametrize("strategy", ["all", "min", "long"])
def test_more_rotations_than_groups_serve_the_same(strategy: str) -> None:
    for size in range(6):
        for deleted in combinations(range(5), size):
            expected = select(strategy, rotations(5).sequences, deleted)
            assert select(strategy, rotations(5, 8).sequences, deleted) == expected


@pytest.mark.parametrize("budget", [1, 3, 6])
def test_iterative_rotations_begin_as_rotations(budget: int) -> None:
    assert iterative_rotations(6, budget).sequences == rotations(6, budget).sequences


@pytest.mark.parametrize("groups", [3, 4, 5])
def test_iterative_rotations_are_distinct_and_head_evenly(groups: int) -> None:
    for budget in range(groups + 1, min(len(list(permutations(range(groups)))), 40) + 1):
        paths = iterative_rotations(groups, budget).sequences
        assert len(paths) == len(set(paths)) == budget
        assert all(sorted(path) == list(range(groups)) for path in paths)
        heads = Counter(path[0] for path in paths)
        assert len(heads) == groups
        assert max(heads.values()) - min(heads.values()) <= 1


@pytest.mark.parametrize("groups", [3, 4, 6])
def test_enough_iterative_rotations_start_with_every_ordered_pair(groups: int) -> None:
    paths = iterative_rotations(groups, groups * (groups - 1)).sequences
    assert {path[:2] for path in paths} == set(permutations(range(groups), 2))


def test_all_iterative_rotations_are_all_orders() -> None:
    assert sorted(iterative_rotations(4, 24).sequences) == sorted(permutations(range(4)))


@pytest.mark.parametrize("budget", [7, 10, 20, 30])
def test_iterative_rotations_hold_the_rotations_and_so_serve_no_less(budget: int) -> None:
    plan = iterative_rotations(6, budget)
    assert set(rotations(6).sequences) <= set(plan.sequences)
    assert mean_live(plan) > mean_live(rotations(6))


@pytest.mark.parametrize("groups", [1, 3, 4])
def test_more_orders_than_there_are_are_refused(groups: int) -> None:
    orders = len(list(permutations(range(groups))))
    with pytest.raises(InputError, match=f"^budget: {orders + 1} is more than the {orders} order"):
        iterative_rotations(groups, orders + 1)
