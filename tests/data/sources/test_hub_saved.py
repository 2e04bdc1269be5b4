"""Folders that the datasets library saved, read as they are on the disk; the hub is not asked."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from dataset_columns import contents_of, ids_of

from fedsgt.data import Columns, load_dataset
from fedsgt.data.sources.hub import saved_columns
from fedsgt.errors import InputError

datasets = import_module("datasets")
COLUMNS = Columns(("image",), images=True)


def split(prefix: str, count: int) -> Any:
    features = datasets.Features(
        id=datasets.Value("string"), image=datasets.Image(), label=datasets.ClassLabel(names=["no", "yes"])
    )
    rows = {
        "id": [f"{prefix}{i}" for i in range(count)],
        "image": [{"bytes": b"image %d" % i, "path": None} for i in range(count)],
        "label": [i % 2 for i in range(count)],
    }
    return datasets.Dataset.from_dict(rows, features=features)


def test_splits_are_parts_and_labels_are_declared(tmp_path: Path) -> None:
    datasets.DatasetDict(train=split("t", 4), validation=split("v", 2)).save_to_disk(tmp_path / "several")
    source = str(tmp_path / "several")
    table = load_dataset(source, COLUMNS, test_share=0.2)
    assert (ids_of(table.records), table.labels) == (("t0", "t1", "t2", "t3"), (0, 1, 0, 1))
    assert contents_of(table.records)[3] == (b"image 3",)
    assert (table.label_count, table.label_names) == (2, ("no", "yes"))
    assert ids_of(load_dataset(source, COLUMNS, split="test", test_share=0.2).records) == ("v0", "v1")
    assert saved_columns(tmp_path / "several/train") == ["id", "image", "label"]


def test_rows_that_a_data_set_leaves_out_are_left_out(tmp_path: Path) -> None:
    split("t", 5).select([3, 1]).save_to_disk(tmp_path / "single")
    table = load_dataset(str(tmp_path / "single"), COLUMNS)
    assert contents_of(table.records) == ((b"image 1",), (b"image 3",))
    with pytest.raises(InputError, match=r"single has no column 'key'; its columns: .*; set data\.id_column"):
        load_dataset(str(tmp_path / "single"), Columns(("image",), id="key"))


def test_a_damaged_folder_is_named(tmp_path: Path) -> None:
    split("t", 5).save_to_disk(tmp_path / "single")
    for file in (tmp_path / "single").glob("*.arrow"):
        file.write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"single cannot be read as a saved data set: [^\n]+$"):
        load_dataset(str(tmp_path / "single"), COLUMNS)
    for text in ("", "[]", '{"features": 3}', "[" * 100_000):
        (tmp_path / "single/dataset_info.json").write_text(text)
        with pytest.raises(InputError, match="single cannot be read as a saved data set"):
            saved_columns(tmp_path / "single")
