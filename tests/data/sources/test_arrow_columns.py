"""Columns without deleted rows: dictionaries hold what is in use, and a comparison sees every difference."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from fedsgt.data.sources.arrow_columns import compacted, filtered, same_values, schema_without, texts_in
from fedsgt.errors import InputError

pa = import_module("pyarrow")

CATEGORY = pa.dictionary(pa.int8(), pa.string())


def categories(places: list[int | None], values: list[str | None]) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(places, pa.int8()), pa.array(values, pa.string()))


@pytest.mark.parametrize(
    ("places", "values", "left"),
    [
        ([2, 0, 2], ["x", "unused", "y"], ["x", "y"]),
        ([None, 1], ["unused", "x"], ["x"]),
        ([None, None], ["unused"], []),
        ([], ["unused"], []),
        ([1, 0], [None, "x", "unused"], [None, "x"]),
    ],
)
def test_a_dictionary_keeps_the_values_in_use_in_their_order(
    places: list[int | None], values: list[str | None], left: list[str | None]
) -> None:
    rows = pa.table({"a": categories(places, values)})
    found = compacted(rows)
    assert found.schema == rows.schema
    assert found.to_pylist() == rows.to_pylist()
    assert [chunk.dictionary.to_pylist() for chunk in found.column("a").chunks] == [left]


def test_dictionaries_inside_of_lists_and_structures() -> None:
    inner = categories([0, 1, 2, 3, 0], ["a", "b", "c", "d", "unused"])
    missing = pa.array([False, True, False])
    column = pa.ListArray.from_arrays(pa.array([0, 2, 3, 5], pa.int32()), inner, mask=missing)
    rows = pa.table({"list": column, "image": pa.StructArray.from_arrays([column], ["x"], mask=missing)})
    for part in (rows, rows.slice(1, 2), rows.slice(0, 0)):
        found = compacted(part)
        found.validate(full=True)
        assert found.to_pylist() == part.to_pylist()
        assert same_values(found, part)
    # What lies under a missing list is nobody's any more.
    assert compacted(rows).column("list").chunk(0).values.dictionary.to_pylist() == ["a", "b", "d"]


def test_a_type_whose_dictionaries_cannot_be_reached_is_refused() -> None:
    kind = pa.map_(pa.string(), CATEGORY)
    with pytest.raises(InputError, match=r"a column of type map<.*> cannot be freed of deleted values"):
        compacted(pa.table({"a": pa.array([[("k", "v")]], kind)}))


@pytest.mark.parametrize("view", [pa.string_view(), pa.binary_view()])
def test_views_are_filtered_wherever_they_are(view: Any) -> None:
    long = "a text that does not fit into a view itself"
    rows = pa.table({"a": pa.array([long, "b", None], view), "label": [0, 1, 2]})
    rows = rows.append_column(
        "s", pa.array([{"bytes": "x"}, None, {"bytes": long}], pa.struct({"bytes": view}))
    )
    rows = rows.append_column("l", pa.array([[long], None, ["b", None]], pa.list_(view)))
    rows = rows.replace_schema_metadata({"k": "v"})
    found = filtered(rows, pa.array([True, False, True]))
    assert found.schema.equals(rows.schema, check_metadata=True)
    assert found.to_pylist() == [rows.to_pylist()[0], rows.to_pylist()[2]]


def test_equal_values_are_equal_however_they_are_stored() -> None:
    left, right = categories([0, 1, 0, None], ["x", "y"]), categories([2, 1, 2, None], ["unused", "y", "x"])
    ours = pa.table({"a": left, "b": [float("nan"), 1.0, None, 2.0]})
    theirs = pa.table({"a": right, "b": [float("nan"), 1.0, None, 2.0]})
    assert same_values(ours, theirs)
    chunks = pa.concat_tables([theirs.slice(0, 1), ours.slice(1, 3)])
    assert same_values(ours, chunks)


@pytest.mark.parametrize(
    ("kind", "ours", "theirs"),
    [
        (pa.int64(), [1, 2], [1, 3]),
        (pa.int64(), [1, None], [1, 0]),
        (pa.float64(), [0.0], [-0.0]),
        (CATEGORY, ["x", "y"], ["x", "z"]),
        (CATEGORY, ["x", None], ["x", "x"]),
        (pa.list_(CATEGORY), [["x"], ["y"]], [["x", "y"], []]),
        (pa.list_(CATEGORY), [None], [[]]),
        (pa.struct({"a": CATEGORY}), [{"a": "x"}], [{"a": "y"}]),
        (pa.struct({"a": CATEGORY}), [{"a": None}], [None]),
        (pa.string(), ["x"], ["x", "x"]),
    ],
)
def test_every_difference_is_seen(kind: Any, ours: list[Any], theirs: list[Any]) -> None:
    tables = [pa.table({"a": pa.array(values, kind)}) for values in (ours, theirs)]
    assert not same_values(*tables)
    assert same_values(tables[0], pa.table({"a": pa.array(ours, kind)}))


def test_a_difference_after_many_rows_is_seen() -> None:
    ours, theirs = list(range(1000)), [*range(999), 0]
    assert not same_values(pa.table({"a": ours}), pa.table({"a": theirs}))
    assert not same_values(pa.table({"a": ours}), pa.table({"b": ours}))


def test_texts_of_a_row() -> None:
    row = {"a": "x", "b": {"bytes": b"y", "n": 1}, "c": ["z", None], "d": [("k", "v")], "e": 2.0}
    assert list(texts_in(row)) == [b"x", b"y", b"z", b"k", b"v"]


def test_only_whole_words_are_quotes() -> None:
    schema = pa.schema([("a", pa.int64())], metadata={"n": "17 rows", "m": "no. 7", "j": '"caf\\u00e9"'})
    assert set(schema_without(schema, [b"7", "café".encode()]).metadata) == {b"n"}
    assert schema_without(schema, [b"", b" "]).metadata == schema.metadata
    assert schema_without(pa.schema([("a", pa.int64())]), [b"7"]).metadata is None
