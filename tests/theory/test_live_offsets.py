"""Best choices of B < L offsets: all at L = 8, and the arrangements of equal and unequal gaps."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, combinations

import pytest

from fedsgt.theory import expected_live_offsets

GROUPS = 8
REQUESTS = [*range(1, 16), 25, 40]


def gaps_of(offsets: Sequence[int], groups: int) -> tuple[int, ...]:
    """The cyclic gaps, the same for all turns and mirror images of a choice."""
    gaps = [
        after - before for before, after in zip(offsets, [*offsets[1:], offsets[0] + groups], strict=True)
    ]
    both_ways = (gaps, gaps[::-1])
    return min(tuple(way[turn:] + way[:turn]) for way in both_ways for turn in range(len(gaps)))


def live_by_gaps(groups: int, budget: int, requests: int) -> dict[tuple[int, ...], Fraction]:
    choices = ((0, *rest) for rest in combinations(range(1, groups), budget - 1))
    by_gaps = {gaps_of(choice, groups): choice for choice in choices}
    return {gaps: expected_live_offsets(groups, choice, requests) for gaps, choice in by_gaps.items()}


def kept_together(groups: int, budget: int) -> tuple[int, ...]:
    """Gaps of floor and ceil size, all those of one size side by side."""
    gap, wider = divmod(groups, budget)
    return (gap,) * (budget - wider) + (gap + 1,) * wider


def best_of(live: dict[tuple[int, ...], Fraction]) -> set[tuple[int, ...]]:
    return {gaps for gaps, groups in live.items() if groups == max(live.values())}


def test_gaps_name_a_choice_up_to_turning() -> None:
    assert gaps_of([0, 3, 6, 8], 10) == gaps_of([1, 3, 6, 9], 10) == kept_together(10, 4) == (2, 2, 3, 3)
    assert gaps_of(list(accumulate((0, 3, 2, 3))), 10) == (2, 3, 2, 3)


@pytest.mark.parametrize("budget", range(2, GROUPS))
def test_the_first_offsets_are_the_worst(budget: int) -> None:
    first = gaps_of(range(budget), GROUPS)
    for requests in REQUESTS:
        live = live_by_gaps(GROUPS, budget, requests)
        assert [gaps for gaps, groups in live.items() if groups == min(live.values())] == [first]


@pytest.mark.parametrize("budget", range(2, GROUPS))
def test_the_best_offsets_are_evenly_spread(budget: int) -> None:
    for requests in REQUESTS:
        assert all(max(best) - min(best) <= 1 for best in best_of(live_by_gaps(GROUPS, budget, requests)))


@pytest.mark.parametrize("budget", range(2, GROUPS))
def test_equal_gaps_kept_together_are_best_but_for_one_case(budget: int) -> None:
    for requests in REQUESTS:
        best = best_of(live_by_gaps(GROUPS, budget, requests))
        if (budget, requests) == (5, 2):
            assert best == {(1, 2, 1, 2, 2)}
        else:
            assert kept_together(GROUPS, budget) in best


def test_the_one_case_by_hand() -> None:
    # 2 of 8 groups hit, 5 sequences: spreading the wider gaps wins by 2/64 of a group, and only here.
    assert expected_live_offsets(8, [0, 1, 3, 4, 6], 2) == Fraction(299, 64)
    assert expected_live_offsets(8, [0, 1, 2, 4, 6], 2) == Fraction(297, 64)


@pytest.mark.parametrize("budget", range(2, GROUPS))
def test_kept_together_is_the_one_best_over_many_requests(budget: int) -> None:
    curves = [live_by_gaps(GROUPS, budget, requests) for requests in range(1, 16)]
    means = {gaps: sum((curve[gaps] for curve in curves), Fraction(0)) for gaps in curves[0]}
    assert best_of(means) == {kept_together(GROUPS, budget)}


def test_ten_groups_four_sequences() -> None:
    together, apart = [0, 3, 6, 8], [0, 3, 5, 8]
    assert expected_live_offsets(10, together, 1) == expected_live_offsets(10, apart, 1)
    for requests in REQUESTS[1:]:
        assert expected_live_offsets(10, together, requests) > expected_live_offsets(10, apart, requests)
