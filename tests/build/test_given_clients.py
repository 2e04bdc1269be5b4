"""Records from memory are dealt as those of a file, and checked when they are given again."""

from __future__ import annotations

from pathlib import Path

import pytest
from given_world import data_of, trained_in_memory
from tiny_world import World, made, trained

import fedsgt
from fedsgt.runs.folder import open_run
from fedsgt.runs.kept_records import kept_in, read_kept


def test_modules_are_those_of_the_same_records_in_a_file(images: World, texts: World, tmp_path: Path) -> None:
    for world in (images, texts):
        run = trained_in_memory(world, tmp_path / world.task)
        assert made(run.folder) == trained(tmp_path / f"{world.task} from a file", world.config())


def test_the_folder_may_be_moved(images: World, tmp_path: Path) -> None:
    before = made(trained_in_memory(images, tmp_path / "run").folder)
    assert str(tmp_path) not in (tmp_path / "run" / "run.toml").read_text().partition("[grouping]")[0]
    (tmp_path / "run").rename(tmp_path / "moved")
    folder = open_run(tmp_path / "moved")
    assert kept_in(folder.config) == tmp_path / "moved"
    assert made(folder) == before
    assert fedsgt.open_run(tmp_path / "moved").verify().passed


def test_the_same_call_continues_and_other_records_are_refused(images: World, tmp_path: Path) -> None:
    first = trained_in_memory(images, tmp_path / "run")
    again = trained_in_memory(images, tmp_path / "run")
    assert again.training is not None
    assert again.training.trained == 0
    assert made(again.folder) == made(first.folder)
    data = data_of(images)
    data["train"][0]["label"] = (data["train"][0]["label"] + 1) % 3
    with pytest.raises(fedsgt.InputError, match="the records of client c0 are not those that this run"):
        fedsgt.train(images.config(), tmp_path / "run", data=data)
    assert made(open_run(tmp_path / "run")) == made(first.folder)


def test_after_a_deletion_the_same_records_may_be_given_again(images: World, tmp_path: Path) -> None:
    """What was deleted does not come back with them."""
    run = trained_in_memory(images, tmp_path / "run")
    gone = read_kept(run.path, 0)[0].id
    run.unlearn("c0", records=[gone])
    again = trained_in_memory(images, tmp_path / "run")
    assert again.training is not None
    assert again.training.trained > 0
    assert gone not in {record.id for record in read_kept(run.path, 0)}
    assert made(again.folder) == trained(
        tmp_path / "never", images.without(row for row in images.rows if row.id == gone).config()
    )
    assert again.verify().passed


def test_retained_records_or_none_at_all_continue_a_run(images: World, tmp_path: Path) -> None:
    """Whoever has honoured a deletion has fewer records, and perhaps fewer clients."""
    run = trained_in_memory(images, tmp_path / "run")
    run.unlearn("c0", everything=True)
    data = data_of(images)
    left = {"train": [row for row in data["train"] if row["client"] != "c0"], "test": data["test"]}
    again = fedsgt.train(images.config(), tmp_path / "run", data=left, progress=False)
    assert again.training is not None
    assert again.training.trained > 0
    without = fedsgt.train(images.config(), tmp_path / "run", progress=False)
    assert without.training is not None
    assert without.training.trained == 0
    with pytest.raises(fedsgt.InputError, match="of another configuration") as error:
        fedsgt.train(images.config("training.seed=5"), tmp_path / "run", progress=False)
    assert "remove" not in str(error.value), "it has the only copy of the records"


def test_a_source_that_stands_for_memory_cannot_be_trained_from_a_file(images: World, tmp_path: Path) -> None:
    with pytest.raises(fedsgt.InputError, match="#run, which stands for records that are given from Python"):
        fedsgt.train(images.config("data.source=#run"), tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_bad_records_leave_no_folder(images: World, tmp_path: Path) -> None:
    data = data_of(images)
    data["train"][3]["image"] = b"no image"
    with pytest.raises(fedsgt.InputError, match=data["train"][3]["id"]):
        fedsgt.train(images.config(), tmp_path / "run", data=data, progress=False)
    assert list(tmp_path.iterdir()) == []
