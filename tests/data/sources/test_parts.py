"""Parts of a source: which one is trained on, which one is tested on, and what is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedsgt.data.sources.parts import Split, choose_part, is_place, local_parts, place_of_test
from fedsgt.errors import InputError


def test_a_word_is_a_part_and_all_else_is_a_place() -> None:
    assert not any(map(is_place, ["test", "validation", "my_dev-set"]))
    assert all(map(is_place, ["x.csv", "x.PARQUET", "a/b", "./test", "~/test", "/test", "../test"]))


@pytest.mark.parametrize("names", [["train", "test"], ["train", "validation", "dev"], ["train", "val"]])
def test_a_source_with_a_test_part_is_not_split(names: list[str]) -> None:
    assert choose_part(names, "x", "train", None, 0.2) == ("train", None)
    assert choose_part(names, "x", "test", None, 0.2) == (names[1], None)


def test_a_source_without_a_test_part_is_split_unless_a_test_is_given() -> None:
    names = ["train", "notes"]
    assert choose_part(names, "x", "train", None, 0.2) == ("train", 0.2)
    assert choose_part(names, "x", "test", None, 0.2) == ("train", 0.2)
    assert choose_part(names, "x", "train", "notes", 0.2) == ("train", None)
    assert choose_part(names, "x", "test", "notes", 0.2) == ("notes", None)
    for share in (None, 0.0):
        assert choose_part(names, "x", "train", None, share) == ("train", None)
        with pytest.raises(InputError, match="has no part test or validation; its parts: train, notes; set"):
            choose_part(names, "x", "test", None, share)
    splits: tuple[Split, ...] = ("train", "test")
    for split in splits:
        with pytest.raises(InputError, match=r"'x' has no part train; its parts: notes$"):
            choose_part(["notes"], "x", split, None, 0.2)


def test_a_typing_error_is_told_with_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/train.csv").touch()
    for source, meant in (
        ("data/train.cvs", "data/train.csv"),
        ("data/trian.csv", "data/train.csv"),
        ("dat/train.csv", "data"),
        ("dta", "data"),
        ("digit", "digits"),
    ):
        with pytest.raises(
            InputError, match=rf"^data\.source '{source}' does not exist; did you mean '{meant}'"
        ):
            local_parts(source)
    with pytest.raises(InputError, match=r"^data\.test 'data/tst\.csv' does not exist; did you mean"):
        place_of_test("data/tst.csv")
    assert local_parts("owner/name") is None
    with pytest.raises(InputError, match=r"cannot be looked at \(File name too long\)$"):
        local_parts("x" * 5000)


def test_what_is_tested_on_is_one_part(tmp_path: Path) -> None:
    (tmp_path / "train.csv").touch()
    (tmp_path / "dev.csv").touch()
    assert place_of_test(str(tmp_path / "dev.csv")) == tmp_path / "dev.csv"
    with pytest.raises(InputError, match=r"is not one part but dev, train; allowed: a \.csv"):
        place_of_test(str(tmp_path))
