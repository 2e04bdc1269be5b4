"""Forecasts for what is live of a plan, against counting over all streams by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from fedsgt.plans import live_prefix, rotations
from fedsgt.plans.plan import Prefix
from fedsgt.plans.scoring.live_part import chance_alive, expected_accuracy

PREFIXES: list[Prefix] = [(0, 1, 2), (), (2, 0), (1,)]
ODDS = np.array([0.1, 0.3, 0.05, 0.55])


def quality(left: Sequence[Prefix]) -> float | None:
    """Return an accuracy that tells apart which prefixes are left, and at which index."""
    if not any(left):
        return None
    return sum((index + 1) * len(prefix) for index, prefix in enumerate(left)) / 20


def by_hand(requests: int) -> tuple[float, float]:
    """Return P(alive), and the expected quality in the cases in which something is live."""
    alive = total = 0.0
    for stream in product(range(len(ODDS)), repeat=requests):
        chance = math.prod(ODDS[group] for group in stream)
        value = quality([live_prefix(prefix, stream) for prefix in PREFIXES])
        if value is not None:
            alive, total = alive + chance, total + chance * value
    return alive, total / alive


def test_something_is_live_as_long_as_a_first_group_is_not_hit() -> None:
    assert chance_alive(PREFIXES, ODDS, [0, 1, 4]) == pytest.approx([1.0, by_hand(1)[0], by_hand(4)[0]])
    assert chance_alive([(), ()], ODDS, [0, 3]) == [0.0, 0.0]


def test_expected_accuracy_is_exact_for_one_request_and_near_for_more() -> None:
    first, *more = expected_accuracy(PREFIXES, ODDS, 5, quality, 1000)
    assert first is not None
    assert first.exact
    assert first == pytest.approx(by_hand(1)[1])
    for count, found in enumerate(more, start=2):
        assert found is not None
        assert 0 < found.stderr < 0.02
        assert abs(found - by_hand(count)[1]) < 5 * found.stderr


def test_cases_in_which_nothing_is_live_are_left_out() -> None:
    prefixes, odds = [(0, 1), (1,)], np.array([0.25, 0.75])
    scores: dict[tuple[Prefix, ...], float | None] = {((), (1,)): 0.8, ((0,), ()): 0.5, ((), ()): None}
    first, second = expected_accuracy(prefixes, odds, 2, lambda left: scores[left], 10)
    assert first == pytest.approx(0.25 * 0.8 + 0.75 * 0.5)
    assert second is not None
    # Alive only if the same group is hit twice.
    assert abs(second - (0.75**2 * 0.5 + 0.25**2 * 0.8) / (0.75**2 + 0.25**2)) < 5 * second.stderr
    assert expected_accuracy([(0,)], np.array([1.0]), 2, lambda left: None, 10) == [None, None]


def test_no_more_is_scored_than_allowed() -> None:
    prefixes, odds = rotations(12).sequences, np.full(12, 1 / 12)
    asked = list[Sequence[Prefix]]()

    def score(left: Sequence[Prefix]) -> float:
        asked.append(left)
        return len(max(left, key=len)) / 12

    whole = expected_accuracy(prefixes, odds, 6, score, 10**6)
    every = len(asked)
    assert every == len(set(map(tuple, asked))), "each state once"
    asked.clear()
    some = expected_accuracy(prefixes, odds, 6, score, every // 3)
    assert 12 < len(asked) <= every // 3
    assert some[0] == whole[0]
    assert some[5] is not None
    assert whole[5] is not None
    assert some[5].stderr > whole[5].stderr, "fewer streams say less"
    asked.clear()
    assert expected_accuracy(prefixes, odds, 6, score, 11) == []
    assert asked == []
