"""Sources: which part of which source is read, and what is no source."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from dataset_columns import ids_of
from parquet_rows import ROWS, TEXT, changed, write
from record_files import FORMATS, write_as, write_images

from fedsgt.data import Columns, load_dataset
from fedsgt.data.sources import read_names
from fedsgt.errors import InputError


def test_a_folder_has_its_parts(tmp_path: Path) -> None:
    write(tmp_path / "train.parquet", ROWS)
    write(tmp_path / "validation.parquet", changed(id=["v1", "v2", "v3"]))
    folder = str(tmp_path)
    assert ids_of(load_dataset(folder, TEXT, labels=2).records) == ("a", "b", "c")
    assert ids_of(load_dataset(folder, TEXT, split="test", labels=2).records) == ("v1", "v2", "v3")
    # A test part comes before a validation part, unless that is asked for.
    write(tmp_path / "test.parquet", changed(id=["t1", "t2", "t3"]))
    assert ids_of(load_dataset(folder, TEXT, split="test", labels=2).records) == ("t1", "t2", "t3")
    named = load_dataset(folder, TEXT, split="test", test="validation", labels=2)
    assert ids_of(named.records) == ("v1", "v2", "v3")
    with pytest.raises(
        InputError,
        match=r"has no part dev; its parts: test, train, validation; set data\.test to one of them",
    ):
        load_dataset(folder, TEXT, split="test", test="dev", labels=2)


def test_a_folder_without_the_part_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no part train; its parts: none$"):
        load_dataset(str(tmp_path), TEXT, labels=2)
    write(tmp_path / "train.parquet", ROWS)
    with pytest.raises(InputError, match=r"has no part test or validation; its parts: train; set data\.test"):
        load_dataset(str(tmp_path), TEXT, split="test", labels=2)


def test_one_file_needs_another_to_test_on(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", ROWS)
    other = write(tmp_path / "y.parquet", changed(id=["t1", "t2", "t3"]))
    assert ids_of(load_dataset(path, TEXT, test=other, labels=2).records) == ("a", "b", "c")
    assert ids_of(load_dataset(path, TEXT, split="test", test=other, labels=2).records) == ("t1", "t2", "t3")
    with pytest.raises(
        InputError, match=r"has no part test or validation; its parts: train; set data\.test to"
    ):
        load_dataset(path, TEXT, split="test", labels=2)
    with pytest.raises(InputError, match=r"has no part dev; its parts: train; set data\.test to"):
        load_dataset(path, TEXT, split="test", test="dev", labels=2)
    with pytest.raises(InputError, match=r"^data\.test '.*z\.parquet' does not exist"):
        load_dataset(path, TEXT, split="test", test=f"{tmp_path}/z.parquet", labels=2)


def test_a_home_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "x.parquet", ROWS)
    assert len(load_dataset("~/x.parquet", TEXT, labels=2)) == 3


@pytest.mark.parametrize("form", FORMATS)
def test_ids_and_owners_alone_are_read_of_any_format(form: str, tmp_path: Path) -> None:
    path = write_as(form, tmp_path, [{"id": "007", "text": "A", "n": 7}, {"id": "b", "text": "B", "n": 8}])
    assert read_names(path, "id", "n") == [["007", "b"], ["7", "8"]]
    with pytest.raises(InputError, match="has no column 'key'"):
        read_names(path, "key")


def test_ids_of_images_are_their_paths(tmp_path: Path) -> None:
    write_images(tmp_path, {"cat/1.png": b"1", "dog/1.png": b"2"})
    assert read_names(tmp_path, "id") == [["cat/1.png", "dog/1.png"]]
    with pytest.raises(InputError, match=r"nothing\.csv is not there, or of no known format"):
        read_names(tmp_path / "nothing.csv", "id")


COLUMNS = Columns(("ignored",))


@pytest.mark.parametrize("limit", [0, -3])
def test_a_limit_is_positive(limit: int) -> None:
    with pytest.raises(InputError, match=f"limit is {limit}; allowed: at least 1"):
        load_dataset("digits", COLUMNS, limit=limit)


@pytest.mark.parametrize(
    ("missing", "source"), [("sklearn", "digits"), ("pyarrow", "x.parquet"), ("datasets", "owner/name")]
)
def test_a_missing_package_is_named(
    missing: str, source: str, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))
    with open("x.parquet", "wb"):
        pass
    for name in [name for name in sys.modules if name.split(".")[0] == missing]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(InputError, match=rf"package {missing}, .*pip install 'fedsgt\[train\]'$"):
        load_dataset(source, COLUMNS)


def test_the_package_starts_without_what_only_sources_need() -> None:
    code = (
        "import sys, fedsgt.data; print(sorted({'pyarrow', 'sklearn', 'datasets', 'PIL'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
