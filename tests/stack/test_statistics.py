"""Statistics are exact: any order, split and deletion give the same integers; lies are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

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


def from_parts(gram: np.ndarray, cross: np.ndarray, counts: Sequence[int]) -> Statistic:
    """Return a statistic of these products and sums by label, without the 1, which is appended."""
    one, size = unit(BITS), len(gram) + 1
    sums = np.vstack([cross, np.multiply(counts, one)]).astype(np.int64)
    full = np.zeros((size, size), np.int64)
    full[:-1, :-1] = gram
    full[-1] = full[:, -1] = sums.sum(axis=1) * one
    full[-1, -1] = sum(counts) * one**2
    return Statistic(full[np.triu_indices(size)], sums, sum(counts), BITS)


def check(found: Statistic) -> None:
    width, labels = found.size - 1, found.cross.shape[1]
    check_statistic(found, Statistic.empty(width, labels, found.bits), found.records, "hospital-7")


def test_labels_cannot_have_sums_that_their_squares_do_not_allow() -> None:
    """One client with sums as large as features may be, which cancel over the labels, can bend the head."""
    cross = 25 * largest(BITS) * np.array([[-1, 1, 0, 0], [0, -1, 1, 0], [0, 0, -1, 1]])
    gram = cross @ cross.T // 25  # of records that all have their label's mean
    check(from_parts(gram, cross, [25] * 4))
    for less in (0, 0.5, 1 - 1e-6):
        with pytest.raises(RefusedStatistic, match="its sums by label are too large for its products"):
            check(from_parts(gram * less, cross, [25] * 4))


def test_a_direction_without_squares_has_no_sum() -> None:
    """Each feature alone has squares enough; the difference of the two has none."""
    gram, mean = np.full((2, 2), 100 * 1000**2), 40
    check(from_parts(gram, 50 * mean * np.array([[1, -1], [1, -1]]), [50, 50]))
    with pytest.raises(RefusedStatistic, match="its sums by label are too large for its products"):
        check(from_parts(gram, 50 * mean * np.array([[1, -1], [-1, 1]]), [50, 50]))


def test_large_features_do_not_hide_small_ones() -> None:
    """Measure what rounding may do to a feature by its own squares."""
    gram = np.diag([100 * largest(BITS) ** 2] * 40 + [0])
    cross = np.zeros((41, 2))
    check(from_parts(gram, cross, [50, 50]))
    cross[-1] = 50, -50  # by 1 in the last bit
    with pytest.raises(RefusedStatistic, match="its sums by label are too large for its products"):
        check(from_parts(gram, cross, [50, 50]))


@pytest.mark.parametrize("records", [1, 2, 5, 10])
def test_few_records_have_few_directions(records: int) -> None:
    width = 20
    gram = np.eye(width) * records * 1000**2
    with pytest.raises(RefusedStatistic, match=r"its products are those of at least 21 records"):
        check(from_parts(gram, np.zeros((width, 2)), [records, 0]))
    features = np.random.default_rng(records).normal(0, 2, (records, width))
    labels = np.arange(records) % 2
    honest = Statistic.of(features, labels.tolist(), 2, BITS)
    check(honest)
    more = np.zeros(honest.size, np.int64)
    more[:width] = np.random.default_rng(0).integers(-20, 20, width)
    full = honest.full_gram() + np.outer(more, more)
    with pytest.raises(RefusedStatistic, match=f"its products are those of at least {records + 1} records"):
        check(replace(honest, gram=full[np.triu_indices(honest.size)]))


SHAPES: dict[str, Callable[[np.random.Generator, int, int], np.ndarray]] = {
    "normal": lambda rng, n, width: rng.normal(0, 1, (n, width)),
    "tiny": lambda rng, n, width: rng.normal(0, 1e-3, (n, width)),
    "clipped": lambda rng, n, width: rng.normal(0, 1e3, (n, width)),
    "one sign": lambda rng, n, width: np.full((n, width), 1e9) * rng.choice([-1, 1], width),
    "constant": lambda rng, n, width: np.tile(rng.normal(0, 1, width), (n, 1)),
    "nothing": lambda rng, n, width: np.zeros((n, width)),
    "duplicates": lambda rng, n, width: rng.normal(0, 1, (1 + n // 5, width))[rng.integers(0, 1 + n // 5, n)],
    "low rank": lambda rng, n, width: rng.normal(0, 1, (n, 3)) @ rng.normal(0, 1, (3, width)),
    "far from zero": lambda rng, n, width: 60 + rng.normal(0, 1e-2, (n, width)),
    "unlike scales": lambda rng, n, width: rng.normal(0, 1, (n, width)) * np.logspace(-4, 2, width),
    "equal features": lambda rng, n, width: np.repeat(rng.normal(0, 1, (n, 1)), width, axis=1),
    "one outlier": lambda rng, n, width: rng.normal(0, 0.1, (n, width)) + 64 * (np.arange(n) == 0)[:, None],
}


@pytest.mark.parametrize("bits", [8, 12, 16])
@pytest.mark.parametrize("shape", SHAPES)
def test_honest_statistics_are_never_refused(shape: str, bits: int) -> None:
    """Whatever the records, and also what is left of a sum when some of them are taken away."""
    rng = np.random.default_rng(bits)
    for width, records in product((1, 40, 400), (1, 2, 39, 41, 401, 3000)):
        features, gone = SHAPES[shape](rng, records, width), records // 2
        check(Statistic.of(features, [1] * records, 50, bits))
        labels = rng.integers(0, 50, records)
        whole = Statistic.of(features, labels.tolist(), 50, bits)
        check(whole)
        check(whole - Statistic.of(features[:gone], labels[:gone].tolist(), 50, bits))


@given(st.integers(0, 30), st.integers(1, 30), st.sampled_from([8, 12, 16]), st.data())
def test_honest_statistics_of_few_values_are_never_refused(
    records: int, width: int, bits: int, data: st.DataObject
) -> None:
    values = st.sampled_from([0.0, 1.0, -1.0, 0.01, 64.0, -64.0, 63.99, 1 / unit(bits)])
    rows = [data.draw(st.lists(values, min_size=width, max_size=width)) for _ in range(records)]
    labels = data.draw(st.lists(st.integers(0, 4), min_size=records, max_size=records))
    check(Statistic.of(np.array(rows).reshape(records, width), labels, 5, bits))


def test_a_label_that_has_no_record_has_no_sum() -> None:
    features, _ = drawn(10)
    found = statistic(features, np.zeros(10, int))
    cross = found.cross.copy()
    cross[0, 1] += 7
    cross[0, 0] -= 7
    with pytest.raises(RefusedStatistic, match="a label's sum is too large for its records"):
        check_statistic(replace(found, cross=cross), Statistic.empty(WIDTH, LABELS, BITS), 10, "a")
