"""Deleted records leave csv and JSON-lines files and folders of images; nothing else does."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from owner_files import KINDS, read_table, write_images, write_table
from tiny_deletions import problems
from tiny_world import Quiet, Row, World, trained

from fedsgt.build.train import train
from fedsgt.cli.views.deletions import source_text, warnings_of
from fedsgt.config import Config
from fedsgt.errors import InputError
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.unlearning.changes import planned_changes
from fedsgt.unlearning.rejoin import rejoin
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import preview, unlearn

PATHS_KEPT = "the image files that its rows name are not touched"


def planned_sources(folder: RunFolder, deletion: Deletion) -> list[dict[str, Any]]:
    _, after, body = preview(folder, [deletion])
    return planned_changes(folder, after, body).sources


def text_run(texts: World, folder: Path, suffix: str) -> Config:
    """Write the texts with a test part, and return the settings of a run that rewrites them."""
    rows = [{"id": r.id, "sentence": r.content, "label": r.label, "client": r.client} for r in texts.rows]
    write_table(folder / f"train{suffix}", rows)
    write_table(folder / f"test{suffix}", rows[:6])
    return texts.config(f"data.source={folder}", "data.erase=rewrite")


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_rows_of_text_files_go_and_all_other_bytes_stay(texts: World, tmp_path: Path, suffix: str) -> None:
    config = text_run(texts, tmp_path / "data", suffix)
    file = tmp_path / "data" / f"train{suffix}"
    lines = file.read_bytes().splitlines(keepends=True)
    trained(tmp_path / "run", config)
    folder = open_run(tmp_path / "run")
    row = next(row for row in texts.rows if row.client == "c2")
    answer = unlearn(folder, [Deletion("c2", records=(row.id,)), Deletion("c1")])
    gone = {row.id} | {other.id for other in texts.rows if other.client == "c1"}
    kept = [line for line in lines if not any(name.encode() in line for name in gone)]
    assert file.read_bytes() == b"".join(kept)
    assert len(kept) == len(lines) - len(gone)
    assert [(s["file"], s["action"], s["rows"], s["reason"]) for s in answer.sources] == [
        (file.name, "rewritten", len(gone), None)
    ]
    assert problems(folder) == []
    # The next training reads the file as it is now.
    again = train(config, folder.path, Quiet())
    assert problems(again) == []
    unlearn(again, [Deletion(name) for name in ("c0", "c2", "c3")])
    assert read_table(file) == []
    with pytest.raises(InputError, match="no record is left in any group"):
        train(config, folder.path, Quiet())


def test_images_that_rows_name_stay_and_the_answer_says_so(images: World, tmp_path: Path) -> None:
    data = tmp_path / "data"
    contents = {
        f"pictures/{row.id}.pgm": row.content for row in images.rows if isinstance(row.content, bytes)
    }
    write_images(data, contents)
    rows = [
        {"id": row.id, "image": f"pictures/{row.id}.pgm", "label": row.label, "client": row.client}
        for row in images.rows
    ]
    write_table(data / "train.csv", rows)
    write_table(data / "test.csv", rows[:6])
    trained(tmp_path / "run", images.config(f"data.source={data}", "data.erase=rewrite"))
    folder = open_run(tmp_path / "run")
    row = next(row for row in images.rows if row.client == "c2")
    planned = planned_sources(folder, Deletion("c2", records=(row.id,)))
    answer = unlearn(folder, [Deletion("c2", records=(row.id,))])
    told = {"file": "train.csv", "action": "rewritten", "rows": 1, "reason": PATHS_KEPT}
    assert list(answer.sources) == planned == [told]
    assert source_text(told) == f"train.csv: rewritten without 1 row, but {PATHS_KEPT}"
    assert warnings_of(answer) == [f"deleted records are still there, train.csv: {PATHS_KEPT}"]
    assert answer.certificate is not None
    said = json.loads(answer.certificate.read_text())["body"]
    assert any(PATHS_KEPT in sentence for sentence in said["statement"]["not_proved"])
    assert [entry["id"] for entry in read_table(data / "train.csv")] == [
        entry["id"] for entry in rows if entry["id"] != row.id
    ]
    assert {str(path.relative_to(data)) for path in (data / "pictures").iterdir()} == contents.keys()
    assert problems(folder) == []


@pytest.fixture
def rejoined(images: World, tmp_path: Path) -> tuple[RunFolder, Path]:
    """A run whose client c1 came back with a folder of six images."""
    config = images.config(f"data.label_names={list(KINDS)}", "data.erase=rewrite")
    # Tests share the source of the world, which nobody deletes from here.
    trained(tmp_path / "run", config)
    folder, photos = open_run(tmp_path / "run"), tmp_path / "alice" / "photos"
    write_images(photos, {path_of(row): row.content for row in new_rows(images)})
    rejoin(folder, "c1", photos, 1, 1, Quiet())
    return folder, photos


def new_rows(images: World) -> list[Row]:
    return [replace(row, id=f"new-{row.id}") for row in images.rows[:6]]


def path_of(row: Row) -> str:
    return f"{KINDS[row.label]}/{row.id}.pgm"


def in_folder(photos: Path) -> set[str]:
    return {str(path.relative_to(photos)) for path in photos.rglob("*.pgm")}


def test_deleted_images_leave_their_folder(images: World, rejoined: tuple[RunFolder, Path]) -> None:
    folder, photos = rejoined
    first, *others = map(path_of, new_rows(images))
    planned = planned_sources(folder, Deletion("c1~2", records=(first,)))
    answer = unlearn(folder, [Deletion("c1~2", records=(first,))])
    told = {"file": "photos", "action": "removed", "rows": 1, "reason": None}
    assert list(answer.sources) == planned == [told]
    assert source_text(told) == "photos: 1 image removed"
    assert in_folder(photos) == set(others)
    assert problems(folder) == []
    assert answer.certificate is not None
    said = json.loads(answer.certificate.read_text())["body"]
    assert any("(1) were removed from the source folder photos" in one for one in said["statement"]["proved"])
    assert any(artefact["kind"] == "source" for artefact in said["destroyed"])
    ledger = str([entry.body for entry in folder.ledger.entries()])
    for name in ("alice", first, "dog"):
        assert name not in answer.certificate.read_text() + ledger
    unlearn(folder, [Deletion("c1~2")])
    assert in_folder(photos) == set()
    assert problems(train(folder.config, folder.path, Quiet())) == []


def test_an_image_that_is_a_link_is_left_and_said(images: World, rejoined: tuple[RunFolder, Path]) -> None:
    folder, photos = rejoined
    first, second, *_ = map(path_of, new_rows(images))
    theirs = photos.parent / "theirs.pgm"
    (photos / first).rename(theirs)
    (photos / first).symlink_to(theirs)
    answer = unlearn(folder, [Deletion("c1~2", records=(first, second))])
    assert [(source["action"], source["rows"]) for source in answer.sources] == [("removed", 1), ("left", 1)]
    assert theirs.exists()
    assert (photos / first).is_symlink()
    assert not (photos / second).exists()
    assert any("links" in line for line in warnings_of(answer))
    assert answer.certificate is not None
    said = json.loads(answer.certificate.read_text())["body"]
    assert not any(artefact["kind"] == "source" for artefact in said["destroyed"]), "not all of it is gone"
    assert any("gone from the source file photos" in one for one in said["statement"]["not_proved"])
    assert [finding.problem for finding in problems(folder)] == ["still holds deleted records"]


def test_images_that_others_took_away_are_no_error(images: World, rejoined: tuple[RunFolder, Path]) -> None:
    folder, photos = rejoined
    first = path_of(new_rows(images)[0])
    (photos / first).unlink()
    answer = unlearn(folder, [Deletion("c1~2", records=(first,))])
    told = {"file": "photos", "action": "left", "rows": 0, "reason": "none of the images is in it any more"}
    assert list(answer.sources) == [told]
    assert problems(folder) == []


def test_other_names_of_images_are_said(images: World, rejoined: tuple[RunFolder, Path]) -> None:
    folder, photos = rejoined
    first = path_of(new_rows(images)[0])
    os.link(photos / first, photos.parent / "copy.pgm")
    answer = unlearn(folder, [Deletion("c1~2", records=(first,))])
    assert answer.sources[0]["reason"] == "the image files have 1 other name (hard links)"


def test_a_folder_belongs_to_one_enrolment(rejoined: tuple[RunFolder, Path]) -> None:
    folder, photos = rejoined
    with pytest.raises(InputError, match="records of this run are in it already"):
        rejoin(folder, "c2", photos, 1, 1, Quiet())


@pytest.mark.parametrize("source", ["digits", "saved"])
def test_what_can_never_be_rewritten_is_refused_before_training(
    images: World, tmp_path: Path, source: str
) -> None:
    place = source
    if source == "saved":
        (tmp_path / "saved").mkdir()
        for name in ("state.json", "dataset_info.json"):
            (tmp_path / "saved" / name).write_text("{}")
        place = str(tmp_path / "saved")
    config = images.config(f"data.source={place}", "data.partition=iid", "data.erase=rewrite")
    with pytest.raises(InputError, match=r'data\.erase is "rewrite", but .* set it to "tombstone"'):
        train(config, tmp_path / "run", Quiet())
    assert not (tmp_path / "run").exists()
