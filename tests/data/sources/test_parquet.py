"""Parquet files: read whole or in part, and named if they cannot be read."""

from __future__ import annotations

import shutil
from importlib import import_module
from pathlib import Path

import pytest
from dataset_columns import contents_of, ids_of
from parquet_rows import TEXT, changed, write

from fedsgt.data import load_dataset
from fedsgt.errors import InputError

pa = import_module("pyarrow")
parquet = import_module("pyarrow.parquet")


def test_a_limited_file_of_many_row_groups(tmp_path: Path) -> None:
    rows = pa.table({"id": list(range(50)), "sentence": list(map(str, range(50))), "label": [0] * 50})
    parquet.write_table(rows, tmp_path / "x.parquet", row_group_size=7)
    table = load_dataset(str(tmp_path / "x.parquet"), TEXT, labels=2, limit=20)
    assert len(table) == 20
    assert contents_of(table.records) == tuple((record_id,) for record_id in ids_of(table.records))


def test_files_that_are_no_parquet_are_named(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("id,label\n")
    (tmp_path / "x.parquet").write_text("id,label\n")
    (tmp_path / "folder.parquet").mkdir()
    with pytest.raises(InputError, match=r"x\.txt' is of no known format; allowed: a \.csv, \.jsonl or"):
        load_dataset(str(tmp_path / "x.txt"), TEXT)
    with pytest.raises(InputError, match=r"x\.parquet cannot be read as a parquet file: [^\n]+$"):
        load_dataset(str(tmp_path / "x.parquet"), TEXT)
    with pytest.raises(InputError, match=r"folder\.parquet' is not one part but of no known format"):
        load_dataset("digits", TEXT, split="test", test=str(tmp_path / "folder.parquet"))


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "x.parquet", changed(sentence=["x" * 5000, "y" * 5000, "z" * 5000])))
    damaged = tmp_path / "damaged.parquet"
    shutil.copy(path, damaged)
    content = bytearray(path.read_bytes())
    content[4:200] = bytes(196)
    damaged.write_bytes(content)
    with pytest.raises(InputError, match=r"damaged\.parquet cannot be read as a parquet file: [^\n]+$"):
        load_dataset(str(damaged), TEXT, labels=2)
