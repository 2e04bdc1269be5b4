"""A data set has each record once and shows none, and a limited one depends on ids alone."""

from random import Random
from typing import Any

import pytest

from fedsgt.data import Columns, Dataset, Record
from fedsgt.data.dataset import rows_to_use
from fedsgt.errors import InputError

RECORDS = (Record("a", (b"x", "p"), 1, "u"), Record("b", (b"y", "q"), 0, "v"))


def test_labels_stand_in_the_order_of_the_records() -> None:
    assert Dataset(RECORDS, 2).labels == (1, 0)
    assert len(Dataset(RECORDS, 2)) == 2


def test_the_printed_form_shows_no_record() -> None:
    assert repr(Dataset(RECORDS, 2)) == "Dataset(label_count=2, label_names=None)"


def test_the_same_id_twice_is_an_error() -> None:
    with pytest.raises(InputError, match="same record id twice"):
        Dataset((*RECORDS, Record("a", ("other",), 1)), 2)


def test_a_limit_keeps_the_same_records_in_whatever_order_they_come() -> None:
    ids = [f"r{i}" for i in range(200)]
    shuffled = Random(0).sample(ids, len(ids))
    for limit in (1, 30, 200, 500, None):
        kept = [ids[row] for row in rows_to_use(ids, limit)]
        assert kept == [shuffled[row] for row in rows_to_use(shuffled, limit)] == sorted(kept)
        assert len(kept) == min(limit or 200, 200)


def test_a_larger_limit_only_adds_records_and_a_smaller_table_loses_only_its_own() -> None:
    ids = [f"r{i}" for i in range(200)]
    few, many = set(rows_to_use(ids, 20)), set(rows_to_use(ids, 60))
    assert few < many
    gone = min(few)
    left = ids[:gone] + ids[gone + 1 :]
    assert {ids[row] for row in few} - {ids[gone]} < {left[row] for row in rows_to_use(left, 20)}


def test_a_limit_never_changes_between_versions() -> None:
    ids = [f"r{i}" for i in range(20)]
    assert [ids[row] for row in rows_to_use(ids, 5)] == ["r0", "r10", "r19", "r7", "r8"]


def test_a_limit_is_no_choice_of_the_first_ids() -> None:
    # A quarter of the 1,000 chosen rows should come from each quarter of the 4,000: 250, deviation below 14.
    rows = rows_to_use([f"{i:04d}" for i in range(4000)], 1000)
    assert all(abs(sum(row // 1000 == quarter for row in rows) - 250) < 60 for quarter in range(4))


@pytest.mark.parametrize(
    "fields",
    [
        {"inputs": ()},
        {"inputs": ("image", "image")},
        {"inputs": ("label",)},
        {"inputs": ("image",), "id": "label"},
        {"inputs": ("image",), "client": "id"},
    ],
)
def test_columns_are_different_ones(fields: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="allowed: at least one input column"):
        Columns(**fields)
