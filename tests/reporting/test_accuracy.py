"""Accuracy around a deletion: before, now and expected; and never in the way of the deletion."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny_deletions import copied, record_in
from tiny_world import Quiet, World

from fedsgt.build.train import train
from fedsgt.ledger.ledger import Ledger
from fedsgt.reporting.accuracy import AccuracyChange, KnownAccuracy, accuracy_after, known_accuracy
from fedsgt.runs.folder import RunFolder
from fedsgt.serving.accuracy import Accuracy
from fedsgt.serving.evaluation import evaluate
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn


@pytest.fixture(scope="module")
def trained(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("accuracy") / "run"
    made = train(images.config(), path, Quiet())
    evaluate(made)
    made.ledger.close()
    return path


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> RunFolder:
    return copied(trained, tmp_path / "run")


def delete_one(folder: RunFolder, images: World, group: int, key: str | None = None) -> None:
    client, record = record_in(images, folder, group)
    unlearn(folder, [Deletion(client, records=(record,))], key)


def test_a_deletion_is_told_with_before_now_and_expected(folder: RunFolder, images: World) -> None:
    whole = evaluate(folder)
    before = known_accuracy(folder)
    delete_one(folder, images, 1)
    change = accuracy_after(folder, before)
    left = evaluate(folder)
    ahead = whole.expected_after(1)
    assert ahead is not None
    assert (change.before, change.now) == (whole.strategies["all"], left.strategies["all"])
    assert (change.expected, change.strategy, change.test_records) == (ahead.accuracy, "all", 6)
    told = json.loads(json.dumps(change.to_json()))
    assert told["now"].keys() == {"accuracy", "low", "high"}
    assert told["expected"] == ahead.accuracy


def test_nothing_of_before_is_kept(folder: RunFolder, images: World) -> None:
    before = known_accuracy(folder)
    delete_one(folder, images, 1)
    accuracy_after(folder, before)
    text = (folder.path / "evaluation.json").read_text()
    assert "before" not in text
    again = known_accuracy(folder)
    assert again.position == folder.ledger.head(), "what is known now is about what is live now"


def test_a_request_that_is_repeated_has_no_before(folder: RunFolder, images: World) -> None:
    delete_one(folder, images, 1, "ticket")
    first = accuracy_after(folder, KnownAccuracy())
    before = known_accuracy(folder)
    delete_one(folder, images, 1, "ticket")
    change = accuracy_after(folder, before)
    assert (change.now, change.before, change.expected) == (first.now, None, None)


def test_without_an_evaluation_nothing_is_known(images: World, tmp_path: Path) -> None:
    folder = train(images.config("grouping.groups=2"), tmp_path / "run", Quiet())
    before = known_accuracy(folder)
    assert before == KnownAccuracy()
    delete_one(folder, images, 1)
    assert accuracy_after(folder, before) == AccuracyChange("all")


def test_an_exhausted_run_has_only_a_before(folder: RunFolder, images: World) -> None:
    before = known_accuracy(folder)
    unlearn(folder, [Deletion(f"c{number}") for number in range(4)])
    change = accuracy_after(folder, before)
    assert change.now is None
    assert change.before == before.served


def test_errors_count_as_not_known(folder: RunFolder, images: World, monkeypatch: pytest.MonkeyPatch) -> None:
    before = known_accuracy(folder)
    delete_one(folder, images, 1)
    folder.path.joinpath("evaluation.json").mkdir()  # cannot be written
    assert accuracy_after(folder, before) == AccuracyChange("all")

    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Ledger, "entries", fail)
    assert known_accuracy(folder) == KnownAccuracy()
    assert accuracy_after(folder, before) == AccuracyChange("all")


def test_only_a_fall_of_more_than_five_points_is_far() -> None:
    def change(before: float, now: float) -> AccuracyChange:
        return AccuracyChange("all", Accuracy(now, 0, 1), Accuracy(before, 0, 1))

    assert change(0.941, 0.61).fell_far
    assert change(0.941, 0.61).fall == pytest.approx(0.331)
    assert not change(0.9, 0.86).fell_far
    assert change(0.6, 0.9).fall == 0
    assert not AccuracyChange("all", Accuracy(0.1, 0, 1)).fell_far


def test_merged_is_known_only_when_it_was_evaluated(images: World, tmp_path: Path) -> None:
    config = images.config("grouping.groups=2", "serving.strategy=merged")
    folder = train(config, tmp_path / "run", Quiet())
    whole = evaluate(folder)
    before = known_accuracy(folder)
    assert (before.served, before.expected) == (whole.strategies["merged"], None)
    delete_one(folder, images, 1)
    change = accuracy_after(folder, before)
    assert (change.now, change.before, change.strategy) == (None, before.served, "merged")
