"""A file is rewritten without the deleted rows: no byte of them is left, and nothing else is lost."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from fedsgt.data.sources.rewrite import rewrite_file
from fedsgt.data.sources.rewrite_parquet import ParquetCut
from fedsgt.errors import InputError

pa = import_module("pyarrow")
parquet = import_module("pyarrow.parquet")

COMPRESSIONS = ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]
# Of one length, for the type of fixed size, and none a part of another. The deleted one is the greatest, the
# least is deleted too: both would be in statistics.
LEAST, GREATEST = "AA-deleted-least", "zz-deleted-great"
VALUES = [LEAST, "bb-kept-record-1", GREATEST, "cc-kept-record-2", "dd-kept-record-3"]
NUMBERS = [-0x7A6B5C4D3E2F1A0B, 11, 0x7A6B5C4D3E2F1A0B, 12, 13]
IDS = ["a", "b", "c", "d", "e"]
TRACES = [value.encode() for value in (LEAST, GREATEST)]
TRACES += [NUMBERS[0].to_bytes(8, "little", signed=True), NUMBERS[2].to_bytes(8, "little", signed=True)]


def texts(kind: Any) -> Any:
    return pa.array(VALUES, kind)


def contents(kind: Any) -> Any:
    return pa.array([value.encode() for value in VALUES], kind)


def categories(values: Any, *, ordered: bool = False, index: Any = None) -> Any:
    """Return a dictionary with a value that no row has, as pandas keeps categories."""
    places = pa.array(range(len(values)), index or pa.int32())
    return pa.DictionaryArray.from_arrays(places, values, ordered=ordered)


def lists(values: Any, kind: Any) -> Any:
    return kind.from_arrays(pa.array(range(len(values) + 1)), values)


STRUCT = pa.StructArray.from_arrays
COLUMNS: dict[str, Callable[[], Any]] = {
    "string": lambda: texts(pa.string()),
    "large string": lambda: texts(pa.large_string()),
    "string view": lambda: texts(pa.string_view()),
    "binary": lambda: contents(pa.binary()),
    "large binary": lambda: contents(pa.large_binary()),
    "binary view": lambda: contents(pa.binary_view()),
    "fixed size binary": lambda: contents(pa.binary(16)),
    "integer": lambda: pa.array(NUMBERS),
    "category": lambda: categories(texts(pa.string())),
    "ordered category": lambda: categories(texts(pa.string()), ordered=True, index=pa.int8()),
    "category of large texts": lambda: categories(texts(pa.large_string())),
    "category of binary": lambda: categories(contents(pa.binary())),
    "category of large binary": lambda: categories(contents(pa.large_binary())),
    "category of fixed size": lambda: categories(contents(pa.binary(16))),
    "category of integers": lambda: categories(pa.array(NUMBERS)),
    "image": lambda: STRUCT([contents(pa.binary()), texts(pa.string())], ["bytes", "path"]),
    "image of categories": lambda: STRUCT(
        [categories(contents(pa.binary())), categories(texts(pa.string()))], ["bytes", "path"]
    ),
    "list of categories": lambda: lists(categories(texts(pa.string())), pa.ListArray),
    "large list of categories": lambda: lists(categories(texts(pa.string())), pa.LargeListArray),
}


def everything_in(path: Path) -> bytes:
    """Return the file's raw bytes, and its decompressed content with dictionaries."""
    sink = io.BytesIO()
    with parquet.ParquetFile(path) as file:
        names = [column.path for column in file.schema]
    with parquet.ParquetFile(path, read_dictionary=names) as file:
        rows = file.read()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return path.read_bytes() + sink.getvalue()


def write(path: Path, column: Any, **options: Any) -> Any:
    rows = pa.table({"id": IDS, "column": column, "label": [0, 1, 0, 1, 1]})
    parquet.write_table(rows, path, write_page_index=True, **options)
    return rows


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("name", COLUMNS)
def test_no_byte_of_a_deleted_row_is_left(tmp_path: Path, name: str, compression: str) -> None:
    path = tmp_path / "train.parquet"
    write(path, COLUMNS[name](), compression=compression)
    before = parquet.read_table(path)
    assert any(trace in everything_in(path) for trace in TRACES)
    assert rewrite_file(path, "id", {"a", "c", "not there"}) == 2
    found = everything_in(path)
    assert [trace for trace in TRACES if trace in found] == []
    after = parquet.read_table(path)
    assert after.schema.equals(before.schema, check_metadata=True)
    assert after.to_pylist() == [row for row in before.to_pylist() if row["id"] not in {"a", "c"}]
    group = parquet.read_metadata(path).row_group(0)
    codecs = {group.column(number).compression for number in range(group.num_columns)}
    assert codecs == {"UNCOMPRESSED" if compression == "none" else compression.upper()}


@pytest.mark.parametrize(
    "kind", ["string", "large string", "string view", "category", "ordered category", "integer"]
)
def test_deleted_ids_of_every_type_are_gone(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "train.parquet"
    ids = COLUMNS[kind]()
    # One row group for each two rows, so that the dictionaries of several are cut.
    parquet.write_table(pa.table({"id": ids, "label": [0] * 5}), path, compression="none", row_group_size=2)
    gone = {str(ids[0].as_py()), str(ids[2].as_py())}
    assert rewrite_file(path, "id", gone) == 2
    assert [trace for trace in TRACES if trace in everything_in(path)] == []
    assert parquet.read_table(path).column("id").to_pylist() == [ids[row].as_py() for row in (1, 3, 4)]
    assert [parquet.read_metadata(path).row_group(i).num_rows for i in range(3)] == [1, 1, 1]


@pytest.mark.parametrize("name", ["image of categories", "list of categories"])
def test_several_row_groups_with_inner_dictionaries_can_still_be_read_whole(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / "train.parquet"
    # Arrow reads such columns over several row groups only if they are stored without dictionaries.
    write(path, COLUMNS[name](), row_group_size=2, use_dictionary=False)
    assert rewrite_file(path, "id", {"a"}) == 1
    with parquet.ParquetFile(path) as file:
        assert file.read().column("id").to_pylist() == ["b", "c", "d", "e"]


def test_categories_keep_their_order(tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    levels = categories(pa.array(["low", "none", "high", "middle", "top"]), ordered=True)
    write(path, levels.take(pa.array([4, 1, 3, 2, 0])))
    rewrite_file(path, "id", {"c"})
    column = parquet.read_table(path).column("column").combine_chunks()
    assert column.type.ordered
    assert column.dictionary.to_pylist() == ["low", "none", "high", "top"]


def test_a_frame_of_pandas_comes_back_without_its_deleted_rows(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    path = tmp_path / "train.parquet"
    frame = pandas.DataFrame(
        {"column": pandas.Categorical(VALUES), "label": pandas.Categorical([0, 1, 0, 1, 1])},
        index=pandas.Index(IDS, name="id"),
    )
    frame.attrs["first"] = LEAST
    frame.to_parquet(path, compression=None)
    assert LEAST.encode() in parquet.read_schema(path).metadata[b"pandas"]
    rewrite_file(path, "id", {"a", "c"})
    assert [trace for trace in TRACES if trace in everything_in(path)] == []
    found = pandas.read_parquet(path)
    assert found.index.tolist() == ["b", "d", "e"]
    assert found["column"].cat.categories.tolist() == VALUES[1:2] + VALUES[3:]


def test_metadata_that_quotes_a_deleted_row_goes_and_the_rest_stays(tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    names = json.dumps({"info": {"features": {"label": {"names": ["x", "y"], "_type": "ClassLabel"}}}})
    told = {"huggingface": names, "note": f"sorted, from {LEAST} on", "first": "é-7", "version": "17"}
    field = pa.field("text", pa.string(), metadata={"example": GREATEST, "unit": "words"})
    schema = pa.schema([pa.field("id", pa.int64()), field], metadata=told)
    rows = pa.table({"id": [7, 8, 9], "text": [LEAST, "é-7", GREATEST]}, schema=schema)
    parquet.write_table(rows, path)
    assert rewrite_file(path, "id", {"7", "9"}) == 2
    found = parquet.read_schema(path)
    assert set(found.metadata) == {b"huggingface", b"version"}
    assert found.field("text").metadata[b"unit"] == b"words"
    assert [trace for trace in TRACES if trace in everything_in(path)] == []


def test_values_that_equal_nothing_and_nulls_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    floats = [float("nan"), 0.0, None, -0.0, 1.5]
    rows = {
        "id": IDS,
        "double": floats,
        "half": pa.array(floats, pa.float16()),
        "category": pa.DictionaryArray.from_arrays(pa.array([0, None, 1, 0, None]), pa.array(["x", "y"])),
        "list": pa.array([["x", None], None, [], ["y"], ["x"]], pa.list_(pa.dictionary("int8", "string"))),
        "struct": pa.array([None, {"a": None}, {"a": "x"}, None, {"a": "y"}]),
        "map": pa.array([[("k", 1)], None, [], [("l", 2)], []], pa.map_(pa.string(), pa.int64())),
    }
    parquet.write_table(pa.table(rows), path)
    before = repr(parquet.read_table(path).to_pylist()[:2] + parquet.read_table(path).to_pylist()[3:])
    assert rewrite_file(path, "id", {"c"}) == 1
    assert repr(parquet.read_table(path).to_pylist()) == before


def damage(cut: ParquetCut, new: Any) -> None:
    """Write a file that still has every row."""
    parquet.write_table(cut._source.read(), new)


def forget_a_row(cut: ParquetCut, new: Any) -> None:
    """Write a file that lacks one of the rows that stay."""
    parquet.write_table(cut._source.read().slice(3), new)


@pytest.mark.parametrize("wrong", [damage, forget_a_row])
def test_a_new_file_with_other_rows_does_not_take_the_place_of_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: Callable[..., None]
) -> None:
    path = tmp_path / "train.parquet"
    write(path, COLUMNS["string"]())
    before = path.read_bytes()
    monkeypatch.setattr(ParquetCut, "write", wrong)
    with pytest.raises(InputError, match=r"not read as it was to be written\); the file was not"):
        rewrite_file(path, "id", {"c"})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
