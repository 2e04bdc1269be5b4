"""A table keeps its rows together, and a limited one depends on ids alone."""

from random import Random
from typing import Any

import pytest

from fedsgt.data import Columns, Record, Table, content_digest
from fedsgt.data.table import rows_to_use
from fedsgt.errors import InputError

TABLE = Table(("a", "b", "c"), (1, 0, 1), ((b"x", "p"), (b"y", "q"), (b"z", "r")), ("u", "v", "u"), 2)


def test_records_stand_for_the_whole_content() -> None:
    assert TABLE.records() == (
        Record("a", content_digest(b"x", "p"), 1),
        Record("b", content_digest(b"y", "q"), 0),
        Record("c", content_digest(b"z", "r"), 1),
    )
    assert TABLE.records() is TABLE.records()


def test_take_keeps_rows_together() -> None:
    assert TABLE.take([2, 0]) == Table(("c", "a"), (1, 1), ((b"z", "r"), (b"x", "p")), ("u", "u"), 2)
    assert len(TABLE.take([])) == 0
    without_owners = Table(("a", "b"), (0, 1), (("s",), ("t",)), None, 2, ("no", "yes"))
    assert without_owners.take([1]) == Table(("b",), (1,), (("t",),), None, 2, ("no", "yes"))


def test_index_of_is_the_way_back() -> None:
    assert TABLE.index_of(["c", "a", "c"]) == (2, 0, 2)
    with pytest.raises(InputError, match=r"no record has the id 'd'; allowed: ids of the table's 3 records"):
        TABLE.index_of(["a", "d"])


def test_the_printed_form_shows_no_record() -> None:
    assert repr(TABLE) == "Table(label_count=2, label_names=None)"


def test_a_table_that_does_not_fit_together_is_an_error() -> None:
    problem = "has 1 ids, 2 labels, 1 contents and 1 owners"
    with pytest.raises(InputError, match=problem):
        Table(("a",), (0, 1), (("s",),), None, 2)
    with pytest.raises(InputError, match="same record id twice"):
        TABLE.take([0, 0])


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
    # Of 1,000 of 4,000 rows a quarter should come from each quarter: 250, standard deviation below 14.
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
