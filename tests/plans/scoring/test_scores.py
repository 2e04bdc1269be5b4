"""Exact scores, against every stream of requests and against the closed forms."""

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsgt import theory
from fedsgt.errors import InputError
from fedsgt.plans import Plan, make, rotations
from fedsgt.plans.cyclic import spread_offsets
from fedsgt.plans.scoring.scores import uniform_live
from fedsgt.plans.tree.search import tree

UNIFORM = [Fraction(1, 4)] * 4
SKEWED = [Fraction(1, 10), Fraction(4, 10), Fraction(2, 10), Fraction(3, 10)]
ONE_NEVER_HIT = [Fraction(1, 2), Fraction(0), Fraction(1, 3), Fraction(1, 6)]
PRIORS = [UNIFORM, SKEWED, ONE_NEVER_HIT]
PLANS = [
    rotations(4),
    rotations(4, 3),
    make("rotations-first", 4, 2),
    make("iterative-rotations", 4, 7),
    make("matching", 4, prior=[0.1, 0.4, 0.2, 0.3]),
    make("greedy", 4, 3),
    tree(4, effort=0.02),
    Plan.of("stubs", 4, [(2,), (0, 3), (0, 2, 1)]),
]
REQUESTS = range(6)


def live(paths: Iterable[Sequence[int]], hit: Iterable[int]) -> int:
    gone = set(hit)
    return max(next((at for at, group in enumerate(path) if group in gone), len(path)) for path in paths)


def streams(prior: Sequence[Fraction], requests: int) -> list[tuple[tuple[int, ...], Fraction]]:
    return [
        (stream, math.prod((prior[group] for group in stream), start=Fraction(1)))
        for stream in product(range(len(prior)), repeat=requests)
    ]


def mean_live(plan: Plan, prior: Sequence[Fraction], requests: int) -> Fraction:
    return sum((live(plan.sequences, hit) * chance for hit, chance in streams(prior, requests)), Fraction(0))


def chance_alive(plan: Plan, prior: Sequence[Fraction], requests: int) -> Fraction:
    return sum((chance for hit, chance in streams(prior, requests) if live(plan.sequences, hit)), Fraction(0))


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.kind)
def test_uniform_live_groups_equal_enumeration_exactly(plan: Plan) -> None:
    for requests in REQUESTS:
        exact = mean_live(plan, UNIFORM, requests)
        assert uniform_live(plan, requests) == exact
        assert plan.expected_live(requests) == float(exact)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.kind)
@pytest.mark.parametrize("prior", PRIORS, ids=["uniform", "skewed", "one never hit"])
def test_weighted_live_groups_equal_enumeration(plan: Plan, prior: list[Fraction]) -> None:
    found = plan.expected_live(REQUESTS, [float(chance) for chance in prior])
    assert all(value.exact for value in found)
    assert found == pytest.approx([float(mean_live(plan, prior, count)) for count in REQUESTS], abs=1e-13)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.kind)
@pytest.mark.parametrize("prior", PRIORS, ids=["uniform", "skewed", "one never hit"])
def test_survival_equals_enumeration(plan: Plan, prior: list[Fraction]) -> None:
    expected = [float(chance_alive(plan, prior, count)) for count in REQUESTS]
    assert plan.survival(REQUESTS, [float(chance) for chance in prior]) == pytest.approx(expected, abs=1e-13)
    if prior == UNIFORM:
        assert plan.survival(REQUESTS) == expected


@pytest.mark.parametrize("groups", [1, 2, 5, 8, 11])
def test_all_rotations_live_as_the_closed_form_says(groups: int) -> None:
    for requests in (0, 1, 2, 7, 15, 60):
        assert uniform_live(rotations(groups), requests) == theory.expected_live(groups, requests)


@pytest.mark.parametrize("budget", range(1, 8))
def test_fewer_rotations_live_as_the_circle_programme_says(budget: int) -> None:
    offsets = spread_offsets(8, budget)
    for requests in (0, 1, 2, 7, 15, 60):
        expected = theory.expected_live_offsets(8, offsets, requests)
        assert uniform_live(rotations(8, budget), requests) == expected


@pytest.mark.parametrize("budget", [1, 4, 7])
def test_uniform_survival_and_rate_equal_the_closed_forms(budget: int) -> None:
    plan = rotations(7, budget)
    assert plan.survival(range(40)) == [float(theory.survival(7, budget, count)) for count in range(40)]
    assert plan.deletion_rate() == float(theory.deletion_rate(7, budget))


@pytest.mark.parametrize("budget", [1, 4, 7])
def test_weighted_survival_and_rate_equal_the_closed_forms(budget: int) -> None:
    prior = [Fraction(weight, 28) for weight in (3, 7, 1, 5, 2, 6, 4)]
    plan, shares = rotations(7, budget), [float(chance) for chance in prior]
    expected = [float(theory.survival_weighted(prior, plan.roots, count)) for count in range(40)]
    assert plan.survival(range(40), shares) == pytest.approx(expected, abs=1e-12)
    assert plan.deletion_rate(shares) == pytest.approx(
        float(theory.deletion_rate_weighted(prior, plan.roots)), rel=1e-12
    )


def test_the_papers_rate() -> None:
    assert round(rotations(10).deletion_rate(), 2) == 29.29
    assert rotations(10).deletion_rate([0.1] * 10) == pytest.approx(rotations(10).deletion_rate())


def test_twenty_groups_are_exact() -> None:
    plan, counts = rotations(20), [0, 1, 2, 10, 30, 100]
    expected = [float(theory.expected_live(20, count)) for count in counts]
    assert plan.expected_live(counts) == expected
    assert plan.expected_live(counts, [1 / 20] * 20) == pytest.approx(expected, abs=1e-10)
    assert all(value.exact for value in plan.expected_live(counts))


def test_twenty_groups_with_a_prior_fall_as_the_closed_form_says() -> None:
    prior = [Fraction(1, 40)] * 10 + [Fraction(3, 40)] * 10
    plan, shares = rotations(20), [float(chance) for chance in prior]
    values = plan.expected_live([0, 1, 2, 5, 10, 20, 50, 100], shares)
    assert np.isfinite(values).all()
    assert all(later < earlier for earlier, later in pairwise(values))
    assert plan.survival([5, 50, 90], shares) == pytest.approx(
        [float(theory.survival_weighted(prior, range(20), count)) for count in (5, 50, 90)], abs=1e-9
    )
    assert plan.deletion_rate(shares) == pytest.approx(
        float(theory.deletion_rate_weighted(prior, range(20))), rel=1e-9
    )


def test_the_rate_of_more_than_twenty_heads_is_integrated() -> None:
    prior = [Fraction(1, 40)] * 20 + [Fraction(1, 10)] * 5
    expected = float(theory.deletion_rate_weighted(prior, range(25)))
    assert rotations(25).deletion_rate([float(chance) for chance in prior]) == pytest.approx(
        expected, rel=1e-8
    )


@pytest.mark.parametrize("groups", [4, 25])
def test_a_root_that_is_never_hit_lives_for_ever(groups: int) -> None:
    prior = [0.0] + [1 / (groups - 1)] * (groups - 1)
    assert rotations(groups).deletion_rate(prior) == math.inf
    without = Plan.of("mine", groups, rotations(groups).sequences[:1])
    assert without.roots == (0,)
    assert without.survival(1000, prior) == 1.0


@pytest.mark.parametrize("rare", [1e-6, 1e-12, 1e-17, 1e-100])
def test_a_root_that_is_hardly_ever_hit_keeps_its_rate(rare: float) -> None:
    assert rotations(2).deletion_rate([1 - rare, rare]) == pytest.approx(1 / rare, rel=2e-6)


def test_a_prior_need_not_sum_to_one_to_the_last_digit() -> None:
    plan, third = rotations(3), [0.3333333, 0.3333333, 0.3333334]
    assert plan.expected_live(2, third) == pytest.approx(plan.expected_live(2), abs=1e-6)
    assert plan.survival(0, third) == 1.0


@settings(max_examples=40)
@given(weights=st.lists(st.integers(1, 50), min_size=4, max_size=4), index=st.integers(0, len(PLANS) - 1))
def test_scores_only_fall_and_stay_in_range(weights: list[int], index: int) -> None:
    prior = np.array(weights) / sum(weights)
    plan = PLANS[index]
    values, alive = plan.expected_live(range(30), prior), plan.survival(range(30), prior)
    assert float(values[0]) == max(map(len, plan.sequences))
    assert alive[0] == 1.0
    for curve in (values, alive):
        assert all(later <= earlier + 1e-12 for earlier, later in pairwise(curve))
    assert all(-1e-12 <= chance <= groups + 1e-12 for groups, chance in zip(values, alive, strict=True))


def test_one_number_gives_one_score_and_many_give_many() -> None:
    plan, counts = rotations(5), list[Any](np.arange(4))
    assert plan.expected_live(3) == plan.expected_live([3])[0]
    assert plan.survival(3) == plan.survival([3])[0]
    assert [plan.expected_live(count) for count in counts] == plan.expected_live(range(4))


@pytest.mark.parametrize("groups", [4, 24])
def test_no_number_gives_no_score(groups: int) -> None:
    assert rotations(groups).expected_live([]) == []
    assert rotations(groups).survival([]) == []


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ([0.5, 0.5], "prior: 2 values for 3 groups; give one for each group"),
        ([0.6, 0.6, -0.2], "prior: [0.6, 0.6, -0.2] holds a value that is negative or not finite"),
        ([0.5, 0.5, math.nan], "prior: [0.5, 0.5, nan] holds a value that is negative or not finite"),
        ([0.5, 0.5, math.inf], "prior: [0.5, 0.5, inf] holds a value that is negative or not finite"),
        ([0.5, 0.5, 0.1], "prior: the values sum to 1.1; they must sum to 1"),
    ],
)
def test_a_prior_that_is_none_is_named_in_one_line(prior: list[float], message: str) -> None:
    plan = rotations(3)
    scores: list[Callable[[], object]] = [
        lambda: plan.expected_live(1, prior),
        lambda: plan.survival(1, prior),
        lambda: plan.deletion_rate(prior),
    ]
    for score in scores:
        with pytest.raises(InputError) as caught:
            score()
        assert str(caught.value) == message


def test_negative_requests_are_refused() -> None:
    with pytest.raises(InputError, match=r"^requests: -1 is not a whole number of at least 0$"):
        rotations(3).expected_live([2, -1])
