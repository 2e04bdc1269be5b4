"""Local sources: the format and the parts of a file or folder."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from fedsgt.data.sources.files import (
    format_of,
    image_files,
    label_folders,
    parts_of,
    stamps_of,
    training_files,
)
from fedsgt.errors import InputError


def touch(*places: Path) -> None:
    for place in places:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()


@pytest.mark.parametrize(
    ("name", "found"),
    [("x.csv", "csv"), ("x.CSV", "csv"), ("x.jsonl", "jsonl"), ("x.parquet", "parquet"), ("x.txt", None)],
)
def test_a_file_has_the_format_of_its_suffix(tmp_path: Path, name: str, found: str | None) -> None:
    assert format_of(tmp_path / name) is None, "not there"
    touch(tmp_path / name)
    assert format_of(tmp_path / name) == found
    assert parts_of(tmp_path / name) == ({"train": tmp_path / name} if found else {})
    assert training_files(str(tmp_path / name)) == (tmp_path / name if found else None)


def test_a_folder_has_a_part_for_each_file(tmp_path: Path) -> None:
    assert (format_of(tmp_path), parts_of(tmp_path), training_files(str(tmp_path))) == (None, {}, None)
    touch(tmp_path / "train.csv", tmp_path / "test.jsonl", tmp_path / "notes.txt", tmp_path / ".dev.csv")
    touch(tmp_path / "images/cat/1.png")  # paths of these may be in the files
    assert parts_of(tmp_path) == {"train": tmp_path / "train.csv", "test": tmp_path / "test.jsonl"}
    assert (format_of(tmp_path), training_files(str(tmp_path))) == ("csv", tmp_path / "train.csv")
    touch(tmp_path / "train.parquet")
    with pytest.raises(
        InputError, match=r": train\.csv and train\.parquet are both the part train; keep one"
    ):
        parts_of(tmp_path)
    assert training_files(str(tmp_path)) is None


def test_images_by_label_are_a_part_or_several(tmp_path: Path) -> None:
    plain, parted = tmp_path / "plain", tmp_path / "parted"
    touch(plain / "cat/2.png", plain / "cat/1.JPG", plain / "cat/.3.png", plain / "cat/notes.txt")
    touch(plain / ".git/config", plain / "train/1.png", plain / "Thumbs.db")
    # A label may be called train.
    assert (format_of(plain), parts_of(plain)) == ("images", {"train": plain})
    assert (label_folders(plain), image_files(plain / "cat")) == (["cat", "train"], ["1.JPG", "2.png"])
    touch(parted / "train/cat/1.png", parted / "test/cat/1.png", parted / "train/.DS_Store")
    assert parts_of(parted) == {"train": parted / "train", "test": parted / "test"}
    assert (format_of(parted), training_files(str(parted))) == ("images", parted / "train")
    # Labels stay labels after the deletion of their last image.
    (parted / "train/cat/1.png").unlink()
    (plain / "train/1.png").unlink()
    assert training_files(str(parted)) == parted / "train"
    assert training_files(str(plain)) == plain


def test_a_saved_data_set_has_its_splits(tmp_path: Path) -> None:
    datasets = import_module("datasets")
    single = datasets.Dataset.from_dict({"id": ["a", "b"]})
    single.save_to_disk(tmp_path / "single")
    datasets.DatasetDict(train=single, test=single).save_to_disk(tmp_path / "several")
    assert (format_of(tmp_path / "single"), format_of(tmp_path / "several")) == ("saved", "saved")
    assert parts_of(tmp_path / "single") == {"train": tmp_path / "single"}
    several = {name: tmp_path / "several" / name for name in ("test", "train")}
    assert parts_of(tmp_path / "several") == several
    assert training_files(str(tmp_path / "several")) == several["train"]


def test_links_and_the_home_folder_are_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path / "x.csv")
    (tmp_path / "y.csv").symlink_to("x.csv")
    assert training_files(str(tmp_path / "y.csv")) == tmp_path / "x.csv"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert training_files("~/x.csv") == tmp_path / "x.csv"
    assert training_files("a\0b") is None


def test_stamps_show_every_change(tmp_path: Path) -> None:
    touch(tmp_path / "x.csv", tmp_path / "i/cat/1.png", tmp_path / "i/cat/2.png")
    for part, changed in ((tmp_path / "x.csv", "x.csv"), (tmp_path / "i", "i/cat/2.png")):
        before = stamps_of(part)
        assert stamps_of(part) == before
        (tmp_path / changed).write_text("more")
        assert stamps_of(part) != before
    before = stamps_of(tmp_path / "i")
    (tmp_path / "i/cat/1.png").unlink()
    assert stamps_of(tmp_path / "i") != before
