"""S3T's matching selector: a Latin square that puts groups which are likely to be hit late."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsgt.errors import InputError
from fedsgt.plans import Plan, rotations
from fedsgt.plans.matching import matching

LINEAR = np.arange(1, 9) / 36
DOUBLING = 2.0 ** np.arange(8) / 255
VERY_SKEWED = [DOUBLING, np.random.default_rng(3).permutation(DOUBLING)]
SKEWED = [LINEAR, LINEAR[::-1].copy(), *VERY_SKEWED]


def mean_live(plan: Plan, prior: NDArray[np.float64] | None) -> float:
    return float(np.mean(plan.expected_live(range(1, 16), prior)))


@pytest.mark.parametrize("prior", [None, *SKEWED])
def test_every_position_holds_every_group_once(prior: NDArray[np.float64] | None) -> None:
    square = np.array(matching(8, None, prior).sequences)
    for position in range(8):
        assert sorted(square[:, position]) == list(range(8))


@pytest.mark.parametrize("prior", SKEWED)
def test_unlikely_groups_keep_company_with_unlikely_ones(prior: NDArray[np.float64]) -> None:
    """The square holds each group at each place, but the safe sequences run through safe groups first."""
    unlikely = set(np.argsort(prior)[:4].tolist())
    halves = [set(path[:4]) for path in matching(8, None, prior).sequences]
    assert halves[:4] == [unlikely] * 4


@pytest.mark.parametrize(
    ("prior", "budget"), [*((prior, 4) for prior in SKEWED), *((prior, 8) for prior in VERY_SKEWED)]
)
def test_it_beats_rotations_under_a_skewed_prior(prior: NDArray[np.float64], budget: int) -> None:
    assert mean_live(matching(8, budget, prior), prior) > mean_live(rotations(8, budget), prior)


@pytest.mark.parametrize("prior", SKEWED)
def test_a_budget_keeps_the_sequences_of_most_live_groups(prior: NDArray[np.float64]) -> None:
    paths = matching(8, None, prior).sequences
    values = [np.mean(Plan.of("one", 8, [path]).expected_live(range(1, 13), prior)) for path in paths]
    assert all(earlier >= later - 1e-12 for earlier, later in pairwise(values))
    assert matching(8, 3, prior).sequences == paths[:3]


@pytest.mark.parametrize("groups", [1, 2, 3, 17])
def test_any_number_of_groups_will_do(groups: int) -> None:
    plan = matching(groups)
    assert plan.roots == tuple(range(groups))
    assert all(sorted(path) == list(range(groups)) for path in plan.sequences)


def test_a_group_that_is_surely_hit_is_no_obstacle() -> None:
    prior = np.array([0.0, 1.0, 0.0])
    assert matching(3, 1, prior).sequences[0][-1] == 1


def test_more_sequences_than_heads_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"^budget: matching gives at most 5 sequences, one for each group, not 6$"
    ):
        matching(5, 6)
