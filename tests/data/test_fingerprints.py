"""Fingerprints change exactly when what they stand for does, and show nothing of it."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsgt.data import (
    Record,
    derive_salt,
    group_fingerprint,
    in_sample,
    new_salt,
    slice_fingerprint,
)
from fedsgt.errors import InputError

SALT = b"0123456789abcdef"
RECORDS = st.lists(
    st.builds(
        Record,
        st.text("ab0", min_size=1, max_size=3),
        st.tuples(st.binary(max_size=3)),
        st.none() | st.integers(-2, 300),
    ),
    max_size=8,
    unique_by=lambda record: record.id,
)
FINGERPRINTS = st.lists(st.integers(0, 20), min_size=1, max_size=6, unique=True)


def fingerprint_number(number: int) -> str:
    return slice_fingerprint(SALT, "north", number, [])


def test_fingerprints_never_change_between_versions() -> None:
    records = [Record("a", ("x",), 1), Record("b", (b"x",)), Record("c", ("y", b"z"), -3)]
    full, empty = slice_fingerprint(SALT, "north", 2, records), slice_fingerprint(SALT, "north", 0, [])
    assert full == "1675352e48a0f4e128e116af104c897ae449b59b99c4fa436e74624b0de748c2"
    assert empty == "76014d5ca187ffc0ba5b858e2e2c6c7733951ceaf167367a927985e7bd0bdadc"
    expected = "a18f59d401849de60c80ec24431198ba6167a447b2237b8e805236328302818c"
    assert group_fingerprint([full, empty]) == expected
    assert derive_salt(1, "north").hex() == "ed8d535c48f1995db13e97011ec2f48803350f78813cbe131d40ed04ccdb8e91"


@given(RECORDS, RECORDS)
def test_equal_exactly_for_equal_content(first: list[Record], second: list[Record]) -> None:
    same = slice_fingerprint(SALT, "c", 0, first) == slice_fingerprint(SALT, "c", 0, second)
    assert same == (set(first) == set(second))


@given(RECORDS, st.randoms(use_true_random=False))
def test_the_order_of_records_does_not_matter(records: list[Record], random: Any) -> None:
    shuffled = list(records)
    random.shuffle(shuffled)
    assert slice_fingerprint(SALT, "c", 0, shuffled) == slice_fingerprint(SALT, "c", 0, records)


@given(RECORDS.filter(bool), st.data())
def test_id_content_and_label_all_count(records: list[Record], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(records) - 1))
    record = records[at]
    changed = data.draw(
        st.sampled_from(
            [
                replace(record, id=record.id + "-new"),
                replace(record, content=(*record.content, b"")),
                replace(record, label=0 if record.label is None else None),
                replace(record, label=(record.label or 0) + 256),
            ]
        )
    )
    others = [*records[:at], changed, *records[at + 1 :]]
    assert slice_fingerprint(SALT, "c", 0, others) != slice_fingerprint(SALT, "c", 0, records)


def test_no_label_is_not_any_label() -> None:
    labels = [None, 0, -1, 1, 255, 256]
    assert len({slice_fingerprint(SALT, "c", 0, [Record("a", (b"d",), label)]) for label in labels}) == len(
        labels
    )


@given(RECORDS, st.binary(min_size=16, max_size=80), st.binary(min_size=16, max_size=80))
def test_another_salt_is_another_fingerprint(records: list[Record], first: bytes, second: bytes) -> None:
    same = slice_fingerprint(first, "c", 0, records) == slice_fingerprint(second, "c", 0, records)
    assert same == (first == second)


def test_salts_that_hmac_would_not_tell_apart_are_told_apart() -> None:
    assert slice_fingerprint(SALT, "c", 0, []) != slice_fingerprint(SALT + b"\0", "c", 0, [])


@given(RECORDS)
def test_equal_content_differs_between_clients_and_slices(records: list[Record]) -> None:
    values = {
        slice_fingerprint(SALT, client, index, records) for client in ("c", "c1", "1") for index in (0, 1, 11)
    }
    assert len(values) == 9


@given(FINGERPRINTS, FINGERPRINTS)
def test_groups_are_equal_exactly_for_equal_slices(first: list[int], second: list[int]) -> None:
    same = group_fingerprint(map(fingerprint_number, first)) == group_fingerprint(
        map(fingerprint_number, second)
    )
    assert same == (set(first) == set(second))


def test_the_order_of_slices_does_not_matter() -> None:
    slices = [fingerprint_number(number) for number in range(5)]
    assert group_fingerprint(reversed(slices)) == group_fingerprint(slices)


def test_a_group_of_one_slice_is_not_that_slice() -> None:
    assert group_fingerprint([fingerprint_number(0)]) != fingerprint_number(0)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ([], "no slices"),
        (["a" * 64, "a" * 64], "not all different"),
        (["abc"], "'abc' is not allowed"),
        (["A" * 64], "64 lower-case hexadecimal digits"),
        (["a" * 64 + "\n"], "64 lower-case hexadecimal digits"),
        ("a" * 64, "'a' is not allowed"),
        ([5], "5 is not allowed"),
    ],
)
def test_a_bad_group_says_what_is_wrong(values: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        group_fingerprint(values)


@pytest.mark.parametrize(
    ("salt", "problem"), [(b"", "0 bytes"), (b"x" * 15, "15 bytes"), ("x" * 32, "type str")]
)
def test_a_salt_that_can_be_guessed_is_an_error(salt: Any, problem: str) -> None:
    with pytest.raises(InputError, match=f"salt is .*{problem}") as caught:
        slice_fingerprint(salt, "c", 0, [])
    assert "xx" not in str(caught.value)


def test_the_same_id_twice_is_an_error() -> None:
    with pytest.raises(InputError, match="record id 'a' is there twice"):
        slice_fingerprint(SALT, "c", 0, [Record("a", ("1",)), Record("a", ("1",))])


def test_salts_are_long_and_differ() -> None:
    assert len(new_salt()) == len(derive_salt(0, "c")) == 32
    assert new_salt() != new_salt()
    derived = [derive_salt(seed, client) for seed in (0, 1, "0", "1c") for client in ("c", "1c", "cc")]
    assert len(set(derived)) == len(derived)
    assert derive_salt(0, "c") == derive_salt(0, "c")


def test_a_sample_is_a_share_and_larger_samples_hold_the_smaller() -> None:
    ids = [f"r{number}" for number in range(2000)]
    samples = [{name for name in ids if in_sample(SALT, name, share)} for share in (0.1, 0.5, 1.0)]
    assert samples[0] < samples[1] < samples[2] == set(ids)
    assert len(samples[0]) == pytest.approx(200, abs=60)
    assert len(samples[1]) == pytest.approx(1000, abs=120)
    # One value is written down: another rule would give statistics that no longer match the kept ones.
    assert [name for name in ids[:12] if in_sample(SALT, name, 0.5)] == ["r2", "r3", "r4", "r6", "r10", "r11"]
    other = {name for name in ids if in_sample(SALT + b"x", name, 0.5)}
    assert len(other & samples[1]) == pytest.approx(500, abs=100), "another client's sample is another one"
