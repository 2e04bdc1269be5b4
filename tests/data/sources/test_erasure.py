"""Deleted records leave the owner's file or folder, and what could not be done is said without names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from owner_files import SUFFIXES, read_table, write_table

from fedsgt.data.sources.erasure import Erasure, check_can_erase, erase_records, planned_action, why_kept
from fedsgt.errors import InputError

ROWS = [{"id": name, "text": f"text of {name}"} for name in "abc"]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for name in ("cat/1.png", "cat/2.png", "dog/1.png"):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / name).write_bytes(name.encode())
    return tmp_path / "photos"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_rows_leave_a_file(tmp_path: Path, suffix: str) -> None:
    path = write_table(tmp_path / f"train{suffix}", ROWS)
    assert (why_kept(path), planned_action(path)) == (None, "rewritten")
    assert erase_records(path, "id", ["b", "not there"]) == [Erasure("rewritten", 1)]
    assert [row["id"] for row in read_table(path)] == ["a", "c"]
    gone = [Erasure("left", 0, "none of the rows is in it any more")]
    assert erase_records(path, "id", ["b"]) == erase_records(path, "id", []) == gone


def test_other_names_of_the_old_file_are_told(tmp_path: Path) -> None:
    path = write_table(tmp_path / "train.csv", ROWS)
    os.link(path, tmp_path / "copy.csv")
    (answer,) = erase_records(path, "id", ["b"])
    assert answer == Erasure("rewritten", 1, "the old file, with the rows, has 1 other name (hard links)")


def test_remains_of_a_killed_rewrite_go_also_if_no_row_is_left(tmp_path: Path) -> None:
    path = write_table(tmp_path / "train.csv", ROWS)
    (tmp_path / f".{'0' * 16}.train.csv.erasing").write_text("records")
    erase_records(path, "id", [])
    assert list(tmp_path.iterdir()) == [path]


def test_images_leave_a_folder(photos: Path) -> None:
    assert (why_kept(photos), planned_action(photos)) == (None, "removed")
    assert erase_records(photos, "id", ["cat/1.png", "dog/1.png"]) == [Erasure("removed", 2)]
    assert sorted(path.name for path in photos.rglob("*.png")) == ["2.png"]
    gone = [Erasure("left", 0, "none of the images is in it any more")]
    assert erase_records(photos, "id", ["cat/1.png"]) == gone


def test_some_images_may_go_and_others_stay(photos: Path) -> None:
    (photos / "cat" / "3.png").symlink_to(photos / "cat" / "2.png")
    os.link(photos / "dog" / "1.png", photos.parent / "copy.png")
    removed, left = erase_records(photos, "id", ["cat/1.png", "cat/3.png", "dog/1.png"])
    assert removed == Erasure("removed", 2, "the image files have 1 other name (hard links)")
    assert (left.action, left.rows) == ("left", 1)
    assert left.reason == "links, and what else is no plain file, are not removed"
    assert (photos / "cat" / "2.png").exists()


def test_a_file_that_cannot_be_rewritten_is_left_and_its_folder_is_not_named(tmp_path: Path) -> None:
    (tmp_path / "alice").mkdir()
    path = tmp_path / "alice" / "train.csv"
    path.write_text('id,text\na,"open\n')
    with pytest.raises(InputError, match="the file was not changed") as error:
        erase_records(path, "id", ["a"])
    assert "alice" not in str(error.value)
    assert path.read_text() == 'id,text\na,"open\n'
    path.unlink()
    with pytest.raises(InputError, match=r"it cannot be looked at \(No such file or directory\)"):
        erase_records(path, "id", ["a"])


def save(folder: Path) -> Path:
    """Make a folder that looks as if the datasets library had saved it."""
    folder.mkdir()
    for name in ("state.json", "dataset_info.json"):
        (folder / name).write_text("{}")
    return folder


def test_why_a_place_keeps_its_records(tmp_path: Path, photos: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("")
    for path in (other, save(tmp_path / "saved")):
        assert why_kept(path) == "it is of a format that is not rewritten: take the rows out of it yourself"
    assert (why_kept(tmp_path / "nowhere.csv") or "").startswith("it is not there")
    if os.geteuid():
        (photos / "cat").chmod(0o500)
        assert (why_kept(photos) or "").startswith("it cannot be written")
        (photos / "cat").chmod(0o700)


def test_sources_that_can_never_be_rewritten_are_refused(tmp_path: Path, photos: Path) -> None:
    saved = save(tmp_path / "saved")
    for source, message in (
        ("digits", "data.source 'digits' cannot be rewritten: it is no file here"),
        ("owner/name", "data.source 'owner/name' cannot be rewritten: it is no file here"),
        (str(saved), 'it is a folder that the datasets library saved; set it to "tombstone"'),
    ):
        with pytest.raises(InputError) as error:
            check_can_erase(source, "id")
        assert message in str(error.value)
    table = write_table(tmp_path / "train.csv", ROWS)
    for good in (str(table), str(photos), str(tmp_path / "nowhere.csv")):
        check_can_erase(good, "id")
    with pytest.raises(InputError, match="the ids are row numbers"):
        check_can_erase(str(table), "#row")
