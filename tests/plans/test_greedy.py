"""Greedy plans: each sequence is the best that can be added, for any prior."""

from collections.abc import Iterable, Sequence
from itertools import pairwise, permutations

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsgt.errors import InputError
from fedsgt.plans import Plan, make, rotations
from fedsgt.plans.greedy import greedy
from fedsgt.plans.scoring.scores import horizon, uniform_live

PRIOR = np.array([0.3, 0.05, 0.25, 0.15, 0.25])


def total_live(
    paths: Iterable[Sequence[int]], groups: int, prior: NDArray[np.float64] | None = None
) -> float:
    plan = Plan.of("tried", groups, paths)
    return sum(plan.expected_live(horizon(groups), prior))


def mean_live(plan: Plan) -> float:
    return float(np.mean(plan.expected_live(range(1, 16))))


@pytest.mark.parametrize("groups", [6, 8, 10])
def test_it_keeps_more_live_than_as_many_rotations(groups: int) -> None:
    for budget in range(4, groups + 1):
        assert mean_live(greedy(groups, budget)) >= mean_live(rotations(groups, budget)) - 1e-12
    assert mean_live(greedy(groups)) > mean_live(rotations(groups))


@pytest.mark.parametrize("groups", [6, 8, 10])
def test_one_and_two_sequences_are_as_good_and_three_nearly(groups: int) -> None:
    """Two opposite halves leave the third sequence less than three even thirds would."""
    gaps = [mean_live(greedy(groups, budget)) - mean_live(rotations(groups, budget)) for budget in (1, 2, 3)]
    assert gaps[:2] == pytest.approx([0, 0], abs=1e-12)
    assert -0.01 < gaps[2] < 0


def test_each_sequence_is_the_best_of_all_orders_exactly() -> None:
    paths = greedy(4, 5).sequences
    for count in range(5):
        tried = [Plan.of("tried", 4, [*paths[:count], order]) for order in permutations(range(4))]
        best = max(sum(uniform_live(plan, requests) for requests in horizon(4)) for plan in tried)
        chosen = Plan.of("tried", 4, paths[: count + 1])
        assert sum(uniform_live(chosen, requests) for requests in horizon(4)) == best


def test_each_sequence_is_the_best_of_all_orders_under_a_prior() -> None:
    paths = greedy(5, 4, PRIOR).sequences
    for count in range(4):
        best = max(total_live([*paths[:count], order], 5, PRIOR) for order in permutations(range(5)))
        assert total_live(paths[: count + 1], 5, PRIOR) == pytest.approx(best, abs=1e-10)


@pytest.mark.parametrize("prior", [[0.3, 0.1, 0.4, 0.05, 0.15], [0.5, 0.2, 0.15, 0.1, 0.05]])
def test_the_first_sequence_takes_the_least_likely_groups_first(prior: list[float]) -> None:
    assert greedy(5, 1, np.array(prior)).sequences[0] == tuple(np.argsort(prior).tolist())


def test_each_sequence_adds_something() -> None:
    for prior in (None, PRIOR, np.array([0.0, 0.0, 0.0, 0.4, 0.6]), np.array([0.5, 0.0, 0.5, 0.0, 0.0])):
        paths = greedy(5, 100, prior).sequences
        totals = [total_live(paths[:count], 5, prior) for count in range(1, len(paths) + 1)]
        assert all(after > before + 1e-9 for before, after in pairwise(totals))


@pytest.mark.parametrize("groups", [1, 2, 3, 4, 5])
def test_with_budget_to_spare_every_set_is_trained(groups: int) -> None:
    assert len(greedy(groups, 1000).sets) == 2**groups - 1


@pytest.mark.parametrize("passes", [3.5, 10, 21, 30.2])
def test_passes_limit_the_cost_and_are_used(passes: float) -> None:
    plan = make("greedy", 6, passes=passes)
    assert plan.passes <= passes
    assert plan.passes > passes - 3.5
    assert plan.sequences == greedy(6, len(plan.sequences)).sequences


def test_budget_and_passes_both_limit() -> None:
    assert len(make("greedy", 6, 2, 30).sequences) == 2
    assert make("greedy", 6, 20, 10).passes <= 10


def test_a_surely_hit_group_is_no_obstacle() -> None:
    assert greedy(1, 1, np.array([1.0])).sequences == ((0,),)
    assert greedy(2, 2, np.array([1.0, 0.0])).sequences == ((1, 0),)


def test_too_many_groups_are_refused() -> None:
    with pytest.raises(InputError, match=r"^groups: greedy plans are searched up to 20 groups, not 21$"):
        greedy(21)
