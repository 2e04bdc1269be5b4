"""Distinct groups hit by uniform requests, against every request stream."""

from collections import Counter
from fractions import Fraction
from itertools import product

import pytest

from fedsgt.theory import distinct_groups
from fedsgt.theory.numbers import sizes_of_chosen, stirling_row


@pytest.mark.parametrize(("groups", "requests"), [(1, 3), (2, 5), (3, 0), (4, 1), (4, 5), (5, 4)])
def test_distinct_groups_equals_enumeration(groups: int, requests: int) -> None:
    counts = Counter(len(set(stream)) for stream in product(range(groups), repeat=requests))
    for hit in range(groups + 1):
        assert distinct_groups(groups, requests, hit) == Fraction(counts[hit], groups**requests)


def test_nothing_requested_hits_nothing() -> None:
    assert distinct_groups(7, 0, 0) == 1
    assert distinct_groups(7, 3, 0) == 0


@pytest.mark.parametrize(("groups", "requests"), [(10, 7), (50, 200), (3, 2000)])
def test_distinct_groups_is_a_distribution(groups: int, requests: int) -> None:
    assert sum(distinct_groups(groups, requests, hit) for hit in range(groups + 1)) == 1


def test_stirling_numbers_of_the_books() -> None:
    assert stirling_row(0, 3) == (1, 0, 0, 0)
    assert stirling_row(5, 5) == (0, 1, 15, 25, 10, 1)
    assert stirling_row(10, 4) == (0, 1, 511, 9330, 34105)


@pytest.mark.parametrize(("slices", "groups"), [(6, 3), (7, 3), (8, 3), (10, 4), (5, 5)])
def test_sizes_of_chosen_counts_every_choice_of_groups(slices: int, groups: int) -> None:
    size, larger = divmod(slices, groups)
    sizes = [size + 1] * larger + [size] * (groups - larger)
    for chosen in range(groups + 1):
        picks = [pick for pick in product((0, 1), repeat=groups) if sum(pick) == chosen]
        totals = Counter(sum(s for s, taken in zip(sizes, pick, strict=True) if taken) for pick in picks)
        assert dict(sizes_of_chosen(slices, groups, chosen)) == dict(totals)
