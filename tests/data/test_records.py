"""Records and the content hash: unambiguous, and strict about what comes in."""

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsgt.data import Record, labels_of
from fedsgt.data.records import content_digest, sorted_records
from fedsgt.errors import InputError

PARTS = st.lists(st.binary(max_size=4) | st.text("ab\0é", max_size=4) | st.integers(), max_size=4)


@given(PARTS, PARTS)
def test_digests_are_equal_only_for_the_same_parts(first: list[Any], second: list[Any]) -> None:
    assert (content_digest(*first) == content_digest(*second)) == (first == second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("ab", "c"), ("a", "bc")),
        (("ab",), ("a", "b")),
        (("",), ()),
        (("", "a"), ("a", "")),
        (("a",), (b"a",)),
        ((1,), ("1",)),
        ((1,), (-1,)),
        ((255,), (-1,)),
        ((0,), (b"\0",)),
    ],
)
def test_another_split_or_kind_is_another_digest(first: tuple[Any, ...], second: tuple[Any, ...]) -> None:
    assert content_digest(*first) != content_digest(*second)


def test_digest_never_changes_between_versions() -> None:
    expected = "7729be8827d295456a8b8c52646b7b22b0118ce26e38db2da67fe96cc2376761"
    assert content_digest("x", b"y", 3).hex() == expected


def test_integers_of_any_size_can_be_hashed() -> None:
    assert content_digest(10**5000) != content_digest(10**5000 + 1)


@pytest.mark.parametrize("part", [1.5, None, ["a"], bytearray(b"a")])
def test_other_kinds_cannot_be_hashed(part: Any) -> None:
    with pytest.raises(InputError, match="allowed: bytes, str, int"):
        content_digest("a", part)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"id": "", "content": ("d",)}, "record id ''"),
        ({"id": 5, "content": ("d",)}, "record id 5"),
        ({"id": "a", "content": ()}, "record 'a': its content is not allowed"),
        ({"id": "a", "content": "d"}, "record 'a': its content is not allowed"),
        ({"id": "a", "content": ("d", 5)}, "record 'a': its content is not allowed"),
        ({"id": "a", "content": ("d",), "label": 1.0}, "label 1.0"),
    ],
)
def test_a_bad_record_says_what_is_wrong(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        Record(**fields)


def test_order_is_by_id_and_ids_are_unique() -> None:
    a, b = Record("a", ("1",)), Record("b", ("1",))
    assert sorted_records([b, a]) == [a, b]
    with pytest.raises(InputError, match="record id 'a' is there twice"):
        sorted_records([a, b, Record("a", ("2",))])


def test_the_digest_is_that_of_the_content_and_is_computed_once() -> None:
    record = Record("a", (b"x", "p"), 1, "north")
    assert record.digest == content_digest(b"x", "p")
    assert record.digest is record.digest
    assert Record("b", (b"x", "p")).digest == record.digest
    assert record == Record("a", (b"x", "p"), 1, "north"), "a record whose digest is known is no other record"


def test_a_record_takes_its_digest_along_to_another_process() -> None:
    record = Record("a", (b"x" * 1000, "p"), 1, "north")
    digest = record.digest
    there: Record = pickle.loads(pickle.dumps(record))
    assert there == record
    assert there._digest == digest
    many = [Record(f"r{i}", (b"x" * 1000,), i, "north") for i in range(100)]
    assert len(pickle.dumps(many)) < 100 * 1100, "little but the contents"


def test_the_printed_form_shows_nothing_of_a_record() -> None:
    record = Record("patient-7", (b"secret", "text"), 3, "north")
    assert record.digest
    assert repr(record) == str(record) == "Record()"


def test_labels_of_records_that_all_have_one() -> None:
    records = [Record("a", ("x",), 2), Record("b", ("x",), 0)]
    assert labels_of(records) == [2, 0]
    with pytest.raises(InputError, match="record 'c' has no label"):
        labels_of([*records, Record("c", ("x",))])
