"""A file is rewritten whole or not at all, whatever its format and whatever comes between."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from owner_files import SUFFIXES, read_table, write_table

from fedsgt.data.sources.rewrite import other_links, rewrite_file, sweep_rewrites
from fedsgt.data.sources.rewrite_parquet import ParquetCut
from fedsgt.data.sources.rewrite_text import TextCut
from fedsgt.errors import InputError

ROWS = [{"id": name, "text": f"text of {name}"} for name in "abcde"]
KEPT = [row for row in ROWS if row["id"] != "c"]


@pytest.fixture(params=SUFFIXES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_table(tmp_path / f"train{request.param}", ROWS)


def cut_of(path: Path) -> type[ParquetCut] | type[TextCut]:
    return ParquetCut if path.suffix == ".parquet" else TextCut


def test_the_deleted_row_goes_and_all_others_stay(path: Path) -> None:
    assert b"text of c" in path.read_bytes()
    assert rewrite_file(path, "id", {"c", "not there"}) == 1
    assert read_table(path) == KEPT
    assert b"text of c" not in path.read_bytes()


def test_all_rows_can_go(path: Path) -> None:
    assert rewrite_file(path, "id", list("abcde")) == 5
    assert read_table(path) == []
    assert b"text of" not in path.read_bytes()


def test_without_any_of_the_rows_nothing_is_written(path: Path) -> None:
    before = path.stat()
    assert rewrite_file(path, "id", {"not there"}) == 0
    assert path.stat() == before


def test_mode_and_name_stay_and_a_link_is_followed(path: Path, tmp_path: Path) -> None:
    link, other = tmp_path / f"link{path.suffix}", tmp_path / "other"
    path.chmod(0o640)
    link.symlink_to(path)
    assert other_links(path) == 0
    os.link(path, other)
    assert other_links(path) == 1
    assert rewrite_file(link, "id", {"c"}) == 1
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    # Another name leads to the old file, whose content stays: whoever answers must say so.
    assert other_links(path) == 0
    assert b"text of c" in other.read_bytes()
    assert sorted(tmp_path.iterdir()) == sorted([link, other, path])


def test_attributes_are_taken_over(path: Path) -> None:
    try:
        os.setxattr(path, "user.fedsgt", b"told")
    except OSError:
        pytest.skip("this file system has no attributes")
    rewrite_file(path, "id", {"c"})
    assert os.getxattr(path, "user.fedsgt") == b"told"


def test_the_new_file_is_private_while_it_is_written(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, int]] = []
    path.chmod(0o644)
    inner: Callable[..., None] = cut_of(path).write

    def note(*arguments: Any) -> None:
        seen.extend((entry.suffix, entry.stat().st_mode & 0o777) for entry in tmp_path.glob(".*"))
        inner(*arguments)

    monkeypatch.setattr(cut_of(path), "write", note)
    rewrite_file(path, "id", {"c"})
    assert seen == [(".erasing", 0o600)]


def fill_disk(*_arguments: Any) -> None:
    raise OSError(28, "No space left on device")


def write_nothing(*_arguments: Any) -> None:
    pass


@pytest.mark.parametrize("wrong", [fill_disk, write_nothing])
def test_a_new_file_that_is_wrong_does_not_take_the_place_of_the_old(
    path: Path, monkeypatch: pytest.MonkeyPatch, wrong: Callable[..., None]
) -> None:
    before = path.read_bytes()
    monkeypatch.setattr(cut_of(path), "write", wrong)
    with pytest.raises(InputError, match=rf"{path.name}: deleted records cannot.*; the file was not changed"):
        rewrite_file(path, "id", {"c"})
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("way", ["replaced", "written"])
def test_a_file_that_another_program_changes_meanwhile_stays(
    path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    theirs = [*ROWS, {"id": "f", "text": "theirs"}]
    inner: Callable[..., None] = cut_of(path).write

    def changed(*arguments: Any) -> None:
        inner(*arguments)
        place = path if way == "written" else path.with_name(f"theirs{path.suffix}")
        write_table(place, theirs).replace(path)

    monkeypatch.setattr(cut_of(path), "write", changed)
    with pytest.raises(InputError, match="the file was not changed"):
        rewrite_file(path, "id", {"c"})
    assert read_table(path) == theirs
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("content", [b"\xff\xfe no table", None])
def test_a_file_that_cannot_be_read_is_named(path: Path, content: bytes | None) -> None:
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=rf"{path.name}: deleted records cannot be taken out of it \("):
        rewrite_file(path, "id", {"c"})
    assert not path.exists() or path.read_bytes() == content


def test_other_files_are_not_touched(tmp_path: Path) -> None:
    other = tmp_path / "train.txt"
    other.write_text("id\nc\n")
    with pytest.raises(InputError, match="no file that can be rewritten; allowed"):
        rewrite_file(other, "id", {"c"})
    assert other.read_text() == "id\nc\n"


def test_remains_of_killed_rewrites_are_swept(path: Path, tmp_path: Path) -> None:
    others = [tmp_path / f".{'0' * 16}.test{path.suffix}.erasing", tmp_path / f".{path.name}"]
    remains = [tmp_path / f".{'0' * 16}.{path.name}.erasing", tmp_path / f".{path.name}.erasing"]
    for file in (*others, *remains):
        file.write_text("records")
    assert sweep_rewrites(path) == 2
    remains[0].write_text("records")
    assert rewrite_file(path, "id", {"c"}) == 1
    assert sorted(tmp_path.iterdir()) == sorted([path, *others])
    assert sweep_rewrites(path) == sweep_rewrites(tmp_path / "nowhere" / path.name) == 0
