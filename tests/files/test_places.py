"""Names of data and models: what may be asked of the hub, and what is said of a path that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedsgt.files.places import looks_like_hub_name, missing_place


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "text", ["owner/name", "nyu-mll/glue:sst2", "o.w_n-er/na.me-1", "timm/vit_base.augreg"]
)
def test_owner_and_name_may_be_asked_of_the_hub(text: str) -> None:
    assert looks_like_hub_name(text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "mnist",
            "mnist:small",
            "train.cvs",
            "train.csv",
            "a/b/c",
            "a//b",
            "/a/b",
            "./a",
            "../a",
            "~/a",
            "a/",
        ),
        *(
            "data/my.csv",
            "data/my.CSV",
            "owner/name.parquet",
            "owner/name.jsonl",
            "owner/x.json",
            "a b/c",
            "a\\b/c",
        ),
        *(
            "",
            ".",
            "owner/.name",
            "-owner/name",
            "owner/name:",
            "owner/name:x:y",
            "owner/name\n",
            "öwner/name",
        ),
        *("owner/na\0me", "hf://owner/name", "https://x/y"),
    ],
)
def test_everything_else_is_a_path(text: str) -> None:
    assert not looks_like_hub_name(text)


def test_a_folder_of_the_owners_name_makes_it_a_path(tmp_path: Path) -> None:
    (tmp_path / "owner").mkdir()
    assert not looks_like_hub_name("owner/name")
    assert looks_like_hub_name("owner/name", tmp_path / "owner")
    (tmp_path / "owner/other").symlink_to("nowhere")
    assert not looks_like_hub_name("other/name", tmp_path / "owner")


def test_a_name_nearby_is_offered(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/train.csv").touch()
    assert (
        missing_place("data/train.cvs") == "'data/train.cvs' does not exist; did you mean 'data/train.csv'?"
    )
    # The first folder that is not there is what was misspelt.
    assert missing_place("dta/train.csv") == "'dta/train.csv' does not exist; did you mean 'data'?"
    assert missing_place("digit", ["digits"]) == "'digit' does not exist; did you mean 'digits'?"
    whole = str(tmp_path / "data/train.cs")
    assert missing_place(whole) == f"{whole!r} does not exist; did you mean '{whole}v'?"


def test_a_link_that_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("gone")
    assert missing_place("link") == "'link' is a link to 'gone', which does not exist"


def test_without_a_like_name_it_is_said_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    assert missing_place("data/x") == "'data/x' does not exist; in data: nothing"
    for name in "abcdefg":
        (tmp_path / "data" / f"{name}{name}").touch()
    (tmp_path / "data/.hidden").touch()
    assert missing_place("data/x") == ("'data/x' does not exist; in data: 'aa', 'bb', 'cc', 'dd', 'ee' ...")
    assert missing_place("x") == "'x' does not exist; here: 'data'"
    assert missing_place("x", allowed="y") == "'x' does not exist; here: 'data' (allowed: y)"
    assert missing_place("dat", allowed="y") == "'dat' does not exist; did you mean 'data'?"
    assert missing_place("a\0b").startswith("'a\\x00b' does not exist")
    assert missing_place("x" * 5000).startswith("'xxx")
    assert missing_place("/no-such-folder-at-all/x").startswith("'/no-such-folder-at-all/x' does not exist")
