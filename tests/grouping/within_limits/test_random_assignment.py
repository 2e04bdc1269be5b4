"""The default grouping: Algorithm 1, and its random assignment where limits bind."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsgt.grouping import Grouping, make
from fedsgt.grouping.problem import read_problem
from fedsgt.grouping.within_limits import random_assignment
from fedsgt.grouping.within_limits.random_assignment import mix


def test_a_permutation_cut_evenly() -> None:
    order = np.random.default_rng(7).permutation(7)
    grouping = make("random", [3, 4], 3, seed=7)
    assert [sorted(grouping.members(group).tolist()) for group in range(3)] == [
        sorted(order[:3].tolist()),
        sorted(order[3:5].tolist()),
        sorted(order[5:].tolist()),
    ]


def test_seeds_differ_and_repeat() -> None:
    first, again, other = (make("random", [5] * 10, 10, limits=3, seed=seed).group_of for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize("limits", [None, 3])
def test_the_global_generator_is_not_touched(limits: int | None) -> None:
    shared = np.random.mtrand._rand  # the generator behind numpy's module functions
    before = str(shared.get_state(legacy=False))
    make("random", [5] * 10, 10, limits=limits)
    assert str(shared.get_state(legacy=False)) == before


@pytest.mark.parametrize("limits", [None, 4, 9, [4, 5, 3, None], np.array([4, 5, 3, 6])])
def test_limits_that_cannot_bind_change_nothing(limits: int | list[int | None] | None) -> None:
    # Min(S_i, L) is 4, 4, 3 and 4.
    free = make("random", [5, 5, 3, 9], 4, seed=5)
    assert (make("random", [5, 5, 3, 9], 4, seed=5, limits=limits).group_of == free.group_of).all()


def share(made: Callable[[int], Grouping], seeds: int = 300) -> NDArray[np.float64]:
    """Return how often each client (row) is in each group (column)."""
    often: NDArray[np.float64] = np.mean([made(seed).counts() > 0 for seed in range(seeds)], axis=0)
    return often


@pytest.mark.parametrize("limits", [1, 2, 3])
def test_limited_clients_are_spread_evenly_over_groups(limits: int) -> None:
    often = share(lambda seed: make("random", [4] * 6, 6, limits=limits, seed=seed))
    assert often.min() > 0.6 * often.mean()
    assert often.max() < 1.5 * often.mean()


def test_limits_are_used_up() -> None:
    """A mixed assignment puts most clients into as many groups as they may be in; packing alone would not."""
    grouping = make("random", [5] * 200, 20, limits=3)
    assert (grouping.counts() > 0).sum(axis=1).mean() > 2.7


def test_whole_clients_trade_places_with_single_slices() -> None:
    """Ten clients that must stay whole, among single slices, do not sit together in pairs."""
    slices = [5] * 10 + [1] * 50
    pairs = [
        (make("random", slices, 10, limits=1, seed=seed).counts()[:10] > 0).sum(axis=0).max()
        for seed in range(40)
    ]
    occupied = [
        np.count_nonzero((make("random", slices, 10, limits=1, seed=seed).counts()[:10] > 0).any(axis=0))
        for seed in range(40)
    ]
    assert max(pairs) == 2
    # Two places per group and ten of twenty taken: 10 x (1 - 10/20 x 9/19) = 7.6 groups on average.
    assert np.mean(occupied) == pytest.approx(7.63, abs=0.5)


def test_mixing_keeps_sizes_and_limits_from_any_start() -> None:
    rng = np.random.default_rng(0)
    problem = read_problem([6, 6, 6, 2, 2, 2], 4, [2, 2, 2, 1, 1, 1])
    start = np.array([0] * 3 + [1] * 3 + [2] * 4 + [3] * 2 + [0] * 3 + [1] * 3 + [3, 3] + [3, 3] + [2, 2])
    assert problem.within_limits(start)
    for _ in range(20):
        mixed = mix(problem, start, rng)
        assert problem.within_limits(mixed)
        assert (np.bincount(mixed) == np.bincount(start)).all()


def test_it_is_random_which_slices_of_a_client_stay_together() -> None:
    made = [make("random", [4] * 6, 6, limits=2, seed=seed).group_of.reshape(6, 4) for seed in range(100)]
    neighbours = np.mean([groups[:, 0] == groups[:, 1] for groups in made])
    ends = np.mean([groups[:, 0] == groups[:, 3] for groups in made])
    assert neighbours == pytest.approx(ends, abs=0.1)


def test_no_group_is_favoured_where_clients_can_only_be_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole clients of six sizes, in pairs that fill a group: nothing can be traded, only groups renamed."""
    monkeypatch.setattr(random_assignment, "LINES", 0)
    often = share(lambda seed: make("random", [6, 4, 7, 3, 8, 2], 3, limits=1, seed=seed))
    assert often == pytest.approx(np.full((6, 3), 1 / 3), abs=0.1)


def test_a_million_slices() -> None:
    grouping = make("random", np.full(200_000, 5), 100)
    assert (grouping.group_sizes() == 10_000).all()


@pytest.mark.slow
@pytest.mark.parametrize("limits", [3, 1])
def test_a_million_slices_within_limits(limits: int) -> None:
    slices = np.random.default_rng(0).integers(1, 10, size=200_000)
    grouping = make("random", slices, 97, limits=limits)
    assert set(grouping.group_sizes().tolist()) <= {slices.sum() // 97, slices.sum() // 97 + 1}
    assert ((grouping.counts() > 0).sum(axis=1) <= limits).all()
