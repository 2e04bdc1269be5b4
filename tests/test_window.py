"""What a phase trains on with each window, and its cost."""

from __future__ import annotations

from fractions import Fraction

import pytest

from fedsgt.window import Window, groups_used, order_passes, records_used, share_used, trained_groups


@pytest.mark.parametrize(
    ("window", "used", "shares"),
    [
        (None, [1, 2, 3, 4], [1, 1, 1, 1]),
        (1, [1, 1, 1, 1], [1, Fraction(1, 2), Fraction(1, 3), Fraction(1, 4)]),
        (3, [1, 2, 3, 3], [1, 1, 1, Fraction(3, 4)]),
        (9, [1, 2, 3, 4], [1, 1, 1, 1]),
        ("own", [1, 1, 1, 1], [1, 1, 1, 1]),
    ],
)
def test_costs_and_shares_by_depth(window: Window, used: list[int], shares: list[Fraction]) -> None:
    assert [groups_used(depth, window) for depth in range(1, 5)] == used
    assert [share_used(depth, window) for depth in range(1, 5)] == shares
    assert order_passes(4, window) == sum(used) / 4
    assert trained_groups((3, 1, 2), window) == ((2,) if window == "own" else (3, 1, 2))


def test_a_client_with_few_records_counts_for_one() -> None:
    assert [records_used(records, 10, 1) for records in (1, 4, 10, 96)] == [1, 1, 1, 10]
    assert [records_used(7, 10, window) for window in (None, "own", 10)] == [7, 7, 7]
