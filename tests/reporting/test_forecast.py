"""Forecast of further requests, against counting by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from fedsgt.plans import Plan, live_prefix, rotations
from fedsgt.reporting.forecast import forecast_survival, fragile_groups

# Two branches below [0, 1], and one sequence beside them.
BRANCHED = [(0, 1, 2, 3), (0, 1, 3), (2, 3)]


def even(groups: int) -> np.ndarray:
    return np.full(groups, 1 / groups)


def by_hand(prefixes: Sequence[tuple[int, ...]], odds: np.ndarray, requests: int) -> tuple[float, float]:
    """P(alive) and E[live groups] over every stream of so many requests."""
    alive = live = 0.0
    for stream in product(range(len(odds)), repeat=requests):
        chance = math.prod(odds[group] for group in stream)
        longest = max(len(live_prefix(prefix, stream)) for prefix in prefixes)
        alive, live = alive + chance * (longest > 0), live + chance * longest
    return alive, live


@pytest.mark.parametrize("prefixes", [BRANCHED, [(1, 2), (), (3,)], [(0,), (0, 3)], [(4, 0, 1, 2, 3)]])
def test_the_forecast_is_the_mean_over_all_streams(prefixes: list[tuple[int, ...]]) -> None:
    odds = np.array([0.1, 0.3, 0.05, 0.25, 0.3])
    found = forecast_survival(prefixes, odds, 4)
    for count in range(5):
        alive, live = by_hand(prefixes, odds, count)
        assert found.alive[count] == pytest.approx(alive)
        assert found.live_groups[count] == pytest.approx(live)
        assert found.alive[count].exact
        assert found.live_groups[count].exact


def test_the_rotations_of_the_paper() -> None:
    found = forecast_survival(rotations(6).sequences, even(6), 10)
    assert found.requests_left == pytest.approx(14.7)  # L H_L
    assert found.unsafe_at == 8
    assert forecast_survival(rotations(10).sequences, even(10), 1).unsafe_at == 17


def test_the_unsafe_moment_is_found_however_far_the_forecast_goes() -> None:
    near, far = (forecast_survival(rotations(6).sequences, even(6), count) for count in (1, 40))
    assert near.unsafe_at == far.unsafe_at == 8
    assert (len(near.alive), len(far.live_groups)) == (2, 41)
    assert far.alive[8] < 0.9 <= far.alive[7]


def test_more_groups_than_can_be_scored_exactly_are_estimated() -> None:
    paths = rotations(24).sequences
    odds = np.random.default_rng(3).dirichlet(np.ones(24))
    found = forecast_survival(paths, odds, 3)
    expected = Plan.of("rotations", 24, paths).expected_live(range(4), odds)
    for ours, other in zip(found.live_groups[1:], expected[1:], strict=True):
        assert 0 < ours.stderr < 0.2
        assert abs(ours - other) < 5 * math.hypot(ours.stderr, other.stderr)
    assert float(found.live_groups[0]) == 24
    assert found.live_groups[0].exact


def test_live_groups_that_are_few_are_scored_exactly_among_many() -> None:
    found = forecast_survival([(30, 31), (60,)], even(100), 2)
    alive, live = by_hand([(0, 1), (2,)], np.array([0.01, 0.01, 0.01, 0.97]), 2)
    assert found.alive[2] == pytest.approx(alive)
    assert found.live_groups[2] == pytest.approx(live)
    assert found.live_groups[2].exact


def test_nothing_live_has_no_future() -> None:
    found = forecast_survival([(), ()], even(3), 2)
    assert [*map(float, found.alive), *map(float, found.live_groups)] == [0] * 6
    assert (found.requests_left, found.unsafe_at) == (0, 0)


def test_a_first_group_that_no_request_can_hit_serves_for_ever() -> None:
    found = forecast_survival([(0, 1), (2,)], np.array([0.0, 0.5, 0.5]), 3)
    assert math.isinf(found.requests_left)
    assert found.unsafe_at is None
    assert [float(value) for value in found.alive] == [1] * 4


def test_the_most_fragile_group_comes_first() -> None:
    found = fragile_groups(BRANCHED, np.array([0.1, 0.2, 0.3, 0.4]))
    told = [(one.group, one.modules, one.live_groups, one.chance) for one in found]
    assert told == [(0, 5, 2, 0.1), (1, 4, 2, 0.2), (2, 4, 3, 0.3), (3, 3, 3, 0.4)]
    assert fragile_groups([(), ()], even(2)) == []


def test_with_solved_heads_something_answers_whatever_modules_die() -> None:
    odds = np.array([0.1, 0.3, 0.05, 0.25, 0.3])
    trained, solved = (forecast_survival([(1, 2), (3,)], odds, 4, heads) for heads in (False, True))
    assert solved.alive == [1.0] * 5
    assert solved.some_module == trained.some_module == trained.alive
    assert solved.live_groups == trained.live_groups
    assert (solved.requests_left, solved.unsafe_at) == (math.inf, None)
    assert solved.until_no_module == trained.until_no_module == trained.requests_left
    alone = forecast_survival([(), ()], odds, 4, True)
    assert (alone.alive[-1], alone.some_module[0], alone.requests_left) == (1.0, 0.0, math.inf)
