"""Statistics are exact: any order, split and deletion give the same integers; lies are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsgt.errors import InputError
from fedsgt.stack.statistics import (
    LARGEST_FEATURE,
    RefusedStatistic,
    Statistic,
    check_statistic,
    largest,
    most_records,
    quantise,
    unit,
)

WIDTH, LABELS, BITS = 7, 3, 16


def drawn(records: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(0, 3, (records, WIDTH)).astype(np.float32), rng.integers(0, LABELS, records)


def statistic(features: np.ndarray, labels: np.ndarray, bits: int = BITS) -> Statistic:
    return Statistic.of(features, labels.tolist(), LABELS, bits)


def same(one: Statistic, other: Statistic) -> bool:
    return (one.gram.tobytes(), one.cross.tobytes(), one.records, one.bits) == (
        other.gram.tobytes(),
        other.cross.tobytes(),
        other.records,
        other.bits,
    )


@given(st.permutations(range(40)), st.integers(1, 39))
def test_any_order_and_any_split_give_the_same_bytes(order: list[int], cut: int) -> None:
    features, labels = drawn(40)
    first, second = order[:cut], order[cut:]
    parts = [statistic(features[part], labels[part]) for part in (first, second)]
    assert same(parts[0] + parts[1], statistic(features, labels))
    assert same(parts[1] + parts[0], statistic(features, labels))


@given(st.sets(st.integers(0, 39)))
def test_after_a_deletion_it_is_that_of_the_retained_records_alone(deleted: set[int]) -> None:
    features, labels = drawn(40)
    gone, kept = sorted(deleted), sorted(set(range(40)) - deleted)
    left = statistic(features, labels) - statistic(features[gone], labels[gone])
    assert same(left, statistic(features[kept], labels[kept]))


def test_sums_are_those_of_integers() -> None:
    """Floating point only carries them: with the largest features nothing is rounded."""
    rng = np.random.default_rng(1)
    features = rng.uniform(LARGEST_FEATURE - 0.01, 100, (500, WIDTH))
    whole, labels = quantise(features, BITS), rng.integers(0, LABELS, 500)
    assert whole[:, :-1].max() == largest(BITS)
    found = statistic(features, labels)
    assert (found.full_gram() == whole.T @ whole).all()
    assert (found.cross == whole.T @ np.eye(LABELS, dtype=np.int64)[labels]).all()


def test_a_feature_is_rounded_by_itself_and_cut() -> None:
    whole = quantise(np.array([[0.0, 1.0, -1.0, 1e9, -1e9, 0.5 / unit(BITS), 1.5 / unit(BITS)]]), BITS)
    one, most = unit(BITS), largest(BITS)
    assert whole.tolist() == [[0, one, -one, most, -most, 0, 2, one]]
    with pytest.raises(InputError, match="not a finite number"):
        quantise(np.array([[np.nan]]), BITS)


@pytest.mark.parametrize("bits", [8, 12, 16])
def test_an_overflow_is_impossible_or_refused(bits: int) -> None:
    most = most_records(bits)
    assert most * largest(bits) ** 2 <= np.iinfo(np.int64).max < (most + 1) * largest(bits) ** 2
    empty = Statistic.empty(WIDTH, LABELS, bits)
    full = replace(empty, records=most)
    assert (full + empty).records == most
    with pytest.raises(InputError, match=r"could overflow; set heads\.bits to less"):
        _ = full + replace(empty, records=1)


def test_what_does_not_fit_together_is_refused() -> None:
    features, labels = drawn(5)
    found = statistic(features, labels)
    with pytest.raises(InputError, match="statistics differ"):
        _ = found + statistic(features, labels, bits=12)
    with pytest.raises(InputError, match="5 records of 0 cannot be taken away"):
        _ = Statistic.empty(WIDTH, LABELS, BITS) - found


@pytest.mark.parametrize("records", [0, 1, 3, 200])
def test_right_statistics_are_accepted(records: int) -> None:
    """Also those of fewer records than features, whose matrix is singular."""
    features, labels = drawn(records)
    check_statistic(statistic(features, labels), Statistic.empty(WIDTH, LABELS, BITS), records, "hospital-7")


def changed(name: str, place: int | tuple[int, ...], value: int) -> Callable[[Statistic], Statistic]:
    def change(found: Statistic) -> Statistic:
        array = getattr(found, name).copy()
        array[place] = value
        return replace(found, **{name: array})

    return change


def negative(found: Statistic) -> Statistic:
    """Return a statistic whose sums agree, and whose products no numbers have."""
    full = found.full_gram()
    full[0, 1] = full[1, 0] = np.sqrt(float(full[0, 0]) * float(full[1, 1])) * 1.01
    return replace(found, gram=full[np.triu_indices(len(full))])


LIES: dict[str, tuple[Callable[[Statistic], Statistic], str]] = {
    "enormous products": (changed("gram", 1, 2**62), "a sum is too large for 50 records"),
    "smallest int64": (changed("gram", 1, -(2**63)), "a sum is too large"),
    "enormous sums by label": (changed("cross", (0, 0), 2**40), "a sum is too large"),
    "too many records": (lambda found: replace(found, records=51), "51 records, but the client has 50"),
    "fewer than none": (lambda found: replace(found, records=-1), "-1 records, but the client has 50"),
    "wrong number": (lambda found: replace(found, records=49), "its labels are not those of 49 records"),
    "half a record": (changed("cross", (WIDTH, 0), 1), "its labels are not those of 50 records"),
    "other sums": (changed("cross", (0, 0), 5), "its sums contradict each other"),
    "other ones": (changed("gram", -1, 5), "its sums contradict each other"),
    "negative square": (changed("gram", 0, -5), "its matrix of products is not positive"),
    "not positive": (negative, "its matrix of products is not positive"),
    "other bits": (lambda found: replace(found, bits=12), "12 bits; 16 are needed"),
    "floats": (lambda found: replace(found, gram=found.gram.astype(float)), "gram is float64 of shape"),
    "other width": (lambda found: replace(found, cross=found.cross[1:]), "cross is int64 of shape"),
    "a full matrix": (lambda found: replace(found, gram=found.full_gram()), "gram is int64 of shape"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_hostile_statistic_is_refused_and_named(lie: str) -> None:
    change, reason = LIES[lie]
    honest = statistic(*drawn(50))
    with pytest.raises(RefusedStatistic) as refused:
        check_statistic(change(honest), Statistic.empty(WIDTH, LABELS, BITS), 50, "hospital-7")
    assert str(refused.value).startswith("client hospital-7: statistic refused: ")
    assert reason in refused.value.reason


def test_a_label_that_has_no_record_has_no_sum() -> None:
    features, _ = drawn(10)
    found = statistic(features, np.zeros(10, int))
    cross = found.cross.copy()
    cross[0, 1] += 7
    cross[0, 0] -= 7
    with pytest.raises(RefusedStatistic, match="a label's sum is too large for its records"):
        check_statistic(replace(found, cross=cross), Statistic.empty(WIDTH, LABELS, BITS), 10, "a")
