"""Records of Arrow tables: contents come through unchanged, and what is wrong is named."""

from __future__ import annotations

import io
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import pytest
from dataset_columns import contents_of, ids_of, owners_of
from parquet_rows import ROWS, TEXT, changed, write

from fedsgt.data import Columns, Record, load_dataset
from fedsgt.errors import InputError

pa = import_module("pyarrow")


parquet = import_module("pyarrow.parquet")


def png(shade: int) -> bytes:
    image = import_module("PIL.Image")
    buffer = io.BytesIO()
    image.new("L", (4, 4), shade).save(buffer, "PNG")
    return buffer.getvalue()


def test_rows_come_in_the_order_of_their_ids(tmp_path: Path) -> None:
    table = load_dataset(write(tmp_path / "x.parquet", ROWS), TEXT, labels=2)
    assert ids_of(table.records) == ("a", "b", "c")
    assert table.labels == (0, 1, 1)
    assert contents_of(table.records) == (("A",), ("B",), ("C",))
    assert ({*owners_of(table.records)}, table.label_count, table.label_names) == ({None}, 2, None)


@pytest.mark.parametrize("form", ["bytes", "struct"])
def test_images_are_taken_as_their_encoded_bytes(tmp_path: Path, form: str) -> None:
    images = [png(shade) for shade in (0, 100, 200)]
    column = images if form == "bytes" else [{"bytes": image, "path": "x.png"} for image in images]
    path = write(
        tmp_path / "x.parquet", {"id": [2, 1, 10], "image": column, "label": [0, 1, 2]}, ["p", "q", "r"]
    )
    table = load_dataset(path, Columns(("image",)))
    # Numbers are taken as texts, also in the order.
    assert ids_of(table.records) == ("1", "10", "2")
    assert contents_of(table.records) == ((images[1],), (images[2],), (images[0],))
    assert (table.label_count, table.label_names) == (3, ("p", "q", "r"))


@pytest.mark.parametrize(
    "kind",
    [
        "large_string",
        "string_view",
        "dictionary",
        "binary",
        "large_binary",
        "fixed",
    ],
)
def test_texts_and_bytes_may_be_stored_in_any_form(tmp_path: Path, kind: str) -> None:
    forms = {
        "large_string": pa.large_string(),
        "string_view": pa.string_view(),
        "dictionary": pa.dictionary(pa.int32(), pa.string()),
        "binary": pa.binary(),
        "large_binary": pa.large_binary(),
        "fixed": pa.binary(1),
    }
    is_text = kind in ("large_string", "string_view", "dictionary")
    values = ["B", "A", "C"] if is_text else [b"B", b"A", b"C"]
    column = pa.array(values).dictionary_encode() if kind == "dictionary" else pa.array(values, forms[kind])
    table = load_dataset(write(tmp_path / "x.parquet", changed(sentence=column)), TEXT, labels=2)
    assert contents_of(table.records) == tuple((value,) for value in sorted(values))


def test_several_inputs_and_renamed_columns(tmp_path: Path) -> None:
    rows = {"key": ["y", "x"], "one": ["1y", "1x"], "two": ["2y", "2x"], "class": [1, 0], "site": ["n", "s"]}
    path = write(tmp_path / "x.parquet", rows)
    table = load_dataset(path, Columns(("two", "one"), id="key", label="class", client="site"), labels=2)
    assert contents_of(table.records) == (("2x", "1x"), ("2y", "1y"))
    assert (ids_of(table.records), table.labels, owners_of(table.records)) == (("x", "y"), (0, 1), ("s", "n"))


def test_the_order_of_the_file_does_not_matter(tmp_path: Path) -> None:
    order = Random(1).sample(range(100), 100)
    rows: dict[str, list[Any]] = {
        "id": [f"r{i}" for i in range(100)],
        "sentence": [f"text {i}" for i in range(100)],
        "label": [i % 2 for i in range(100)],
        "client": [i % 7 for i in range(100)],
    }
    first = write(tmp_path / "first.parquet", rows)
    second = write(tmp_path / "second.parquet", {k: [v[i] for i in order] for k, v in rows.items()})
    columns = Columns(("sentence",), client="client")
    whole = load_dataset(first, columns, labels=2)
    for limit in (None, 1, 17, 100, 1000):
        table = load_dataset(first, columns, labels=2, limit=limit)
        assert table == load_dataset(second, columns, labels=2, limit=limit)
        assert set(table.records) <= set(whole.records)
        assert len(table) == min(limit or 100, 100)
        for record in table.records:
            number = int(record.id[1:])
            assert record == Record(f"r{number}", (f"text {number}",), number % 2, str(number % 7))


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        (changed(id=["a", None, "c"]), r"column 'id' is missing in row 1 \(counted from 0\)"),
        (changed(id=["a", "b", ""]), r"column 'id' is empty in row 2 \(counted from 0\)"),
        (changed(id=["b", "a", "b"]), r"column 'id' has the id 'b' in rows 0 and 2 \(counted from 0\)"),
        (changed(id=[0.5, 1.0, 2.0]), r"column 'id' is of type double; allowed: texts or whole numbers"),
        (changed(label=[0, None, 1]), r"record 'a' has no label; allowed: whole numbers from 0 to 1$"),
        (changed(label=[0, 1, 2]), r"record 'c' has the label 2; allowed: whole numbers from 0 to 1$"),
        (changed(label=[0, 1, -1]), r"record 'c' has the label -1"),
        (changed(label=[0.0, 1.0, 1.0]), r"record 'a' has the label 1\.0"),
        (changed(label=["no", "yes", "no"]), r"record 'a' has the label 'yes'"),
        (changed(label=[True, False, True]), r"record 'a' has the label False"),
        (changed(sentence=["B", "A", None]), r"record 'c' has nothing in column 'sentence'"),
        (changed(sentence=[1, 2, 3]), r"column 'sentence' is of type int64; allowed: texts or the bytes"),
        (changed(sentence=[["B"], ["A"], ["C"]]), r"column 'sentence' is of type list<"),
        (changed(sentence=[{"path": "x"}] * 3), r"column 'sentence' is of type struct<path"),
        (changed(sentence=[{"bytes": 3}] * 3), r"column 'sentence' is of type int64"),
        (changed(sentence=[{"bytes": b"x"}, None, {"bytes": b"y"}]), r"record 'a' has nothing in"),
        (
            changed(sentence=[{"bytes": b"x", "path": "p"}, {"path": "q"}, {"path": "r"}]),
            "its path alone is not",
        ),
        ({key: values[:0] for key, values in ROWS.items()}, r"there are no rows; allowed: at least one"),
        (
            {"id": ["a"], "text": ["A"], "label": [0]},
            r"no column 'sentence'; its columns: 'id', 'text', 'label'; set data\.input_columns$",
        ),
        (
            {"sentence": ["A"], "label": [0]},
            r"has no column 'id'; its columns: 'sentence', 'label'; set data\.id_column",
        ),
        (
            {"id": ["a"], "sentence": ["A"]},
            r"has no column 'label'; its columns: 'id', 'sentence'; set data\.label_c",
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, columns: dict[str, Any], problem: str) -> None:
    path = write(tmp_path / "x.parquet", columns)
    with pytest.raises(InputError, match=problem) as caught:
        load_dataset(path, TEXT, labels=2)
    assert str(caught.value).startswith(path)
    assert "\n" not in str(caught.value)


def test_a_missing_owner_is_named_by_its_row_also_with_a_limit(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", changed(client=["n", "s", None]))
    for limit in (None, 1):
        with pytest.raises(InputError, match="column 'client' is missing in row 2"):
            load_dataset(path, Columns(("sentence",), client="client"), labels=2, limit=limit)
    with pytest.raises(
        InputError, match=r"has no column 'site'.*; set data.client_column, or data.partition to iid"
    ):
        load_dataset(path, Columns(("sentence",), client="site"), labels=2)


def test_two_columns_of_one_name_are_an_error(tmp_path: Path) -> None:
    rows = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"]), pa.array([0])], ["id", "id", "label"])
    parquet.write_table(rows, tmp_path / "x.parquet")
    with pytest.raises(InputError, match="has more than one column 'id'"):
        load_dataset(str(tmp_path / "x.parquet"), Columns(("id2",)), labels=2)


def test_text_that_is_not_utf8_is_an_error(tmp_path: Path) -> None:
    broken = pa.Array.from_buffers(pa.string(), 3, pa.array([b"B", b"\xff", b"C"]).buffers())
    path = write(tmp_path / "x.parquet", changed(sentence=broken))
    with pytest.raises(InputError, match="column 'sentence' holds text that is not UTF-8"):
        load_dataset(path, TEXT, labels=2)


def test_the_number_of_labels_is_declared_and_never_counted(tmp_path: Path) -> None:
    plain = write(tmp_path / "plain.parquet", ROWS)
    named = write(tmp_path / "named.parquet", ROWS, ["no", "yes", "perhaps"])
    with pytest.raises(InputError, match=r": nothing declares how many labels there are; set data\.labels"):
        load_dataset(plain, TEXT)
    assert load_dataset(plain, TEXT, labels=5).label_count == 5
    table = load_dataset(named, TEXT)
    assert (table.label_count, table.label_names) == (3, ("no", "yes", "perhaps"))
    # A setting wins over the file, and names that do not fit are dropped.
    table = load_dataset(named, TEXT, labels=4)
    assert (table.label_count, table.label_names) == (4, None)
    with pytest.raises(InputError, match=r"there is 1 label; set data.labels to their number, at least 2"):
        load_dataset(write(tmp_path / "one.parquet", ROWS, ["only"]), TEXT)


@pytest.mark.parametrize(
    "note",
    [
        "no json",
        "[]",
        "{}",
        '{"info": null}',
        '{"info": {"features": {"label": {"_type": "Value", "names": ["a", "b"]}}}}',
        '{"info": {"features": {"label": {"_type": "ClassLabel", "names": "ab"}}}}',
        '{"info": {"features": {"other": {"_type": "ClassLabel", "names": ["a", "b"]}}}}',
    ],
)
def test_a_note_that_declares_no_labels_is_none(tmp_path: Path, note: str) -> None:
    parquet.write_table(pa.table(ROWS).replace_schema_metadata({"huggingface": note}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match=r"set data\.labels"):
        load_dataset(str(tmp_path / "x.parquet"), TEXT)


def test_row_numbers_stand_in_for_a_column_of_ids(tmp_path: Path) -> None:
    source = write(tmp_path / "t.parquet", {"sentence": ["B", "A", "C"], "label": [1, 0, 1]})
    table = load_dataset(source, Columns(("sentence",), id="#row"), labels=2)
    assert ids_of(table.records) == ("000000000", "000000001", "000000002")
    assert contents_of(table.records) == (("B",), ("A",), ("C",))
