"""Slicing is stable (definition 1): it sees one id, a seed and S, and nothing else."""

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsgt.data import Record, Slice
from fedsgt.data.slices import are_slices, cut, slice_of
from fedsgt.errors import InputError

SEEDS = st.integers(-5, 5) | st.text(max_size=3)
RECORDS = st.lists(
    st.builds(Record, st.text("abc01é", min_size=1, max_size=6), st.tuples(st.binary(max_size=3))),
    max_size=30,
    unique_by=lambda record: record.id,
)


def places(parts: list[list[Record]]) -> dict[str, int]:
    return {record.id: index for index, part in enumerate(parts) for record in part}


@pytest.mark.parametrize(
    ("record_id", "seed", "slices", "expected"),
    [
        ("record-0", 0, 5, 2),
        ("record-1", 0, 5, 3),
        ("record-2", 0, 5, 4),
        ("record-0", "1", 5, 3),
        ("record-0", -1, 2, 1),
        ("record-0", 0, 1, 0),
        ("record-0", 0, 1000, 657),
        ("record-0", 2**200, 1000, 441),
        ("ä/β/記録", 42, 10, 3),
        ("x" * 300, "north clinic", 10, 8),
    ],
)
def test_slices_never_change_between_versions(record_id: str, seed: Any, slices: int, expected: int) -> None:
    assert slice_of(record_id, seed, slices) == expected


def test_a_run_of_ids_never_changes_between_versions() -> None:
    expected = [4, 1, 0, 3, 4, 3, 2, 1, 3, 2, 0, 4, 4, 3, 0, 4, 2, 3, 2, 0]
    assert [slice_of(f"r{i}", 7, 5) for i in range(20)] == expected


def test_the_hash_is_the_documented_one() -> None:
    """Spelled out, so that a client in another language can be checked against it."""
    key_text = b"s" + (12).to_bytes(8, "big") + b"slicing seed" + b"i" + (1).to_bytes(8, "big") + b"\x07"
    key = hashlib.blake2b(key_text, person=b"fedsgt.slice.1", digest_size=32).digest()
    message = b"s" + (2).to_bytes(8, "big") + b"r1"
    digest = hashlib.blake2b(message, key=key, person=b"fedsgt.slice.1", digest_size=16).digest()
    assert slice_of("r1", 7, 1000) == int.from_bytes(digest, "big") % 1000


@given(RECORDS, SEEDS, st.integers(1, 7), st.data())
def test_a_deletion_moves_no_other_record(
    records: list[Record], seed: int | str, slices: int, data: st.DataObject
) -> None:
    kept = [record for record in records if data.draw(st.booleans())]
    before, after = places(cut(records, seed, slices)), places(cut(kept, seed, slices))
    assert after == {record.id: before[record.id] for record in kept}


@given(RECORDS, SEEDS, st.integers(1, 7))
def test_a_record_is_where_it_would_be_alone(records: list[Record], seed: int | str, slices: int) -> None:
    together = places(cut(records, seed, slices))
    for record in records:
        alone = places(cut([record], seed, slices))[record.id]
        assert together[record.id] == alone == slice_of(record.id, seed, slices)


@given(RECORDS, SEEDS, st.integers(1, 7), st.randoms(use_true_random=False))
def test_the_order_of_records_does_not_matter(
    records: list[Record], seed: int | str, slices: int, random: Any
) -> None:
    shuffled = list(records)
    random.shuffle(shuffled)
    assert cut(shuffled, seed, slices) == cut(records, seed, slices)


@given(RECORDS, SEEDS, st.integers(1, 7))
def test_every_record_is_in_one_slice_in_order_of_id(
    records: list[Record], seed: int | str, slices: int
) -> None:
    parts = cut(records, seed, slices)
    assert len(parts) == slices
    assert sorted(record.id for part in parts for record in part) == sorted(record.id for record in records)
    assert all(part == sorted(part, key=lambda record: record.id) for part in parts)


def test_content_and_label_do_not_move_a_record() -> None:
    first = [Record(f"r{i}", ("old",), 0) for i in range(50)]
    second = [Record(f"r{i}", ("new",), None) for i in range(50)]
    assert places(cut(first, 3, 5)) == places(cut(second, 3, 5))


@pytest.mark.parametrize("slices", [2, 3, 5, 10, 64])
def test_slices_are_about_even(slices: int) -> None:
    """Chi-square of 20,000 regular ids: mean S-1, deviation sqrt(2(S-1)); five deviations are allowed."""
    count = 20_000
    sizes = [0] * slices
    for i in range(count):
        sizes[slice_of(f"record-{i}", 0, slices)] += 1
    expected = count / slices
    chi_square = sum((size - expected) ** 2 / expected for size in sizes)
    assert chi_square < slices - 1 + 5 * (2 * (slices - 1)) ** 0.5


def test_another_seed_is_another_independent_cut() -> None:
    ids = [f"record-{i}" for i in range(5000)]
    for other in (1, "0", -1):
        same = sum(slice_of(i, 0, 5) == slice_of(i, other, 5) for i in ids)
        # A fifth agree by chance: 1000, standard deviation 28.
        assert abs(same - 1000) < 150


def test_a_tiny_client_gets_empty_slices() -> None:
    assert sorted(map(len, cut([Record("a", ("d",))], 0, 4))) == [0, 0, 0, 1]


def test_the_same_id_twice_is_an_error() -> None:
    with pytest.raises(InputError, match="record id 'a' is there twice"):
        cut([Record("a", ("1",)), Record("a", ("2",))], 0, 3)


@pytest.mark.parametrize("slices", [0, -1, 2.0, True])
def test_slices_are_a_whole_number_from_one(slices: Any) -> None:
    with pytest.raises(InputError, match=f"slices is {slices}; allowed"):
        slice_of("a", 0, slices)
    with pytest.raises(InputError, match=f"slices is {slices}; allowed"):
        cut([], 0, slices)


@pytest.mark.parametrize("seed", [None, 1.5, [1]])
def test_seeds_are_numbers_or_texts(seed: Any) -> None:
    with pytest.raises(InputError, match="slicing seed is"):
        cut([], seed, 2)


@pytest.mark.parametrize("record_id", ["", 5, None])
def test_a_slice_is_asked_of_a_text(record_id: Any) -> None:
    with pytest.raises(InputError, match="record id is"):
        slice_of(record_id, 0, 3)


def test_a_slice_comes_in_parts_of_which_only_those_of_a_named_one_have_names() -> None:
    records = tuple(Record(f"r{i}", (str(i),)) for i in range(5))
    named, nameless = ([*Slice(name, records).parts(2)] for name in ("test", ""))
    assert [len(part) for part in named] == [2, 2, 1]
    assert [part.fingerprint for part in named] == ["test-0-2", "test-2-4", "test-4-6"]
    assert {part.fingerprint for part in nameless} == {""}
    for parts in (named, nameless):
        assert tuple(record for part in parts for record in part.records) == records


@given(st.lists(st.integers(-4, 4) | st.booleans() | st.none() | st.floats(0, 3) | st.text(max_size=1)))
def test_slices_are_named_by_whole_numbers_each_once(indices: list[Any]) -> None:
    right = all(type(index) is int and 0 <= index < 3 for index in indices)
    assert are_slices(indices, 3) == (right and len({*indices}) == len(indices))
