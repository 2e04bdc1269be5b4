"""The cyclic span and the live groups of the best rotation, against literal sequences and streams."""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsgt.theory import (
    expected_live,
    expected_live_offsets,
    fedcio_expected_remaining,
    span,
    span_given,
)


def rotated_right(groups: int, offset: int) -> list[int]:
    return [(group - offset) % groups for group in range(groups)]


def live_of_best(sequences: Iterable[Sequence[int]], hit: set[int]) -> int:
    return max(
        next((length for length, group in enumerate(sequence) if group in hit), len(sequence))
        for sequence in sequences
    )


def mean_live(groups: int, offsets: Iterable[int], requests: int) -> Fraction:
    sequences = [rotated_right(groups, offset) for offset in offsets]
    streams = product(range(groups), repeat=requests)
    return Fraction(sum(live_of_best(sequences, set(stream)) for stream in streams), groups**requests)


def test_the_papers_rotations() -> None:
    assert rotated_right(6, 1) == [5, 0, 1, 2, 3, 4]


@pytest.mark.parametrize("groups", [1, 2, 5, 7])
def test_span_given_equals_enumeration_of_subsets(groups: int) -> None:
    sequences = [rotated_right(groups, offset) for offset in range(groups)]
    for hit in range(groups + 1):
        live = [live_of_best(sequences, set(subset)) for subset in combinations(range(groups), hit)]
        assert span_given(groups, hit) == groups - Fraction(sum(live), len(live))


@pytest.mark.parametrize(("groups", "requests"), [(1, 2), (3, 5), (5, 1), (5, 4), (6, 4), (4, 0)])
def test_expected_live_equals_enumeration_of_streams(groups: int, requests: int) -> None:
    live = mean_live(groups, range(groups), requests)
    assert expected_live(groups, requests) == live
    assert span(groups, requests) == groups - live


def test_the_figures_two_spans() -> None:
    # Groups 1 and 3, or 1 and 5, of six: three groups are lost either way.
    sequences = [rotated_right(6, offset) for offset in range(6)]
    assert live_of_best(sequences, {1, 3}) == live_of_best(sequences, {1, 5}) == 6 - 3


@pytest.mark.parametrize(
    ("groups", "offsets"),
    [(1, [0]), (2, [1]), (4, [3]), (5, [0, 2]), (5, [1, 2, 4]), (6, [0, 1, 2]), (6, [0, 3]), (6, [1, 2, 5])],
)
@pytest.mark.parametrize("requests", [0, 1, 2, 4])
def test_offsets_equal_enumeration_of_streams(groups: int, offsets: list[int], requests: int) -> None:
    assert expected_live_offsets(groups, offsets, requests) == mean_live(groups, offsets, requests)


@settings(max_examples=50)
@given(groups=st.integers(2, 9), data=st.data())
def test_offsets_equal_enumeration_of_subsets(groups: int, data: st.DataObject) -> None:
    offsets = data.draw(st.sets(st.integers(0, groups - 1), min_size=1))
    requests = data.draw(st.integers(1, 12))
    sequences = [rotated_right(groups, offset) for offset in offsets]
    # Chance of hitting exactly this set: inclusion-exclusion over the parts of it.
    expected = Fraction(0)
    for size in range(1, groups + 1):
        onto = sum((-1) ** (size - k) * math.comb(size, k) * k**requests for k in range(size + 1))
        lives = (live_of_best(sequences, set(subset)) for subset in combinations(range(groups), size))
        expected += Fraction(onto * sum(lives), groups**requests)
    assert expected_live_offsets(groups, offsets, requests) == expected


@pytest.mark.parametrize("groups", [1, 2, 3, 8, 13, 20])
def test_all_offsets_give_the_closed_form(groups: int) -> None:
    for requests in (0, 1, 2, 5, 17, 40):
        assert expected_live_offsets(groups, range(groups), requests) == expected_live(groups, requests)


def test_one_sequence_has_its_own_closed_form() -> None:
    for requests in range(12):
        alone = sum(Fraction(30 - k, 30) ** requests for k in range(1, 31))
        assert expected_live_offsets(30, [11], requests) == alone


@pytest.mark.parametrize(
    ("groups", "offsets", "requests"), [(20, [0, 4, 8, 12, 16], 8), (20, range(20), 12), (17, [0, 1, 9], 5)]
)
def test_live_groups_agree_with_simulation(groups: int, offsets: Sequence[int], requests: int) -> None:
    rng = np.random.default_rng(7)
    streams = rng.integers(0, groups, size=(20_000, requests))
    live = np.max([((streams + offset) % groups).min(axis=1) for offset in offsets], axis=0)
    error = live.std() / math.sqrt(len(live))
    assert abs(live.mean() - float(expected_live_offsets(groups, offsets, requests))) < 4.5 * error


@settings(max_examples=60)
@given(groups=st.integers(1, 14), requests=st.integers(0, 20), data=st.data())
def test_live_groups_fall_with_requests_and_grow_with_offsets(
    groups: int, requests: int, data: st.DataObject
) -> None:
    offsets = data.draw(st.sets(st.integers(0, groups - 1), min_size=1))
    fewer = data.draw(st.sets(st.sampled_from(sorted(offsets)), min_size=1))
    live = expected_live_offsets(groups, offsets, requests)
    assert 0 <= expected_live_offsets(groups, offsets, requests + 1) <= live <= groups
    assert expected_live_offsets(groups, fewer, requests) <= live <= expected_live(groups, requests)


@settings(max_examples=40)
@given(groups=st.integers(1, 10), shift=st.integers(-25, 25), data=st.data())
def test_only_the_gaps_between_offsets_matter(groups: int, shift: int, data: st.DataObject) -> None:
    offsets = data.draw(st.lists(st.integers(-20, 20), min_size=1, max_size=8))
    turned = [offset + shift for offset in offsets] * 2
    mirrored = [-offset for offset in offsets]
    live = expected_live_offsets(groups, offsets, 4)
    assert live == expected_live_offsets(groups, turned, 4) == expected_live_offsets(groups, mirrored, 4)


def test_long_curves_keep_falling() -> None:
    for curve in (
        [expected_live(50, requests) for requests in range(0, 201, 5)],
        [expected_live_offsets(30, range(0, 30, 6), requests) for requests in range(0, 201, 5)],
    ):
        assert all(later < earlier for earlier, later in pairwise(curve))


@pytest.mark.parametrize(("clusters", "requests"), [(1, 0), (1, 2), (3, 4), (4, 3)])
def test_fedcio_remaining_equals_enumeration(clusters: int, requests: int) -> None:
    unhit = sum(clusters - len(set(stream)) for stream in product(range(clusters), repeat=requests))
    share = Fraction(unhit, clusters * clusters**requests)
    assert fedcio_expected_remaining(clusters, requests) == share
