"""Scoring what is live from kept probabilities alone: as `evaluate` would, and only if nothing is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tiny_deletions import copied, record_in
from tiny_world import Quiet, World

from fedsgt.build.train import train
from fedsgt.files.tensors import pack, tensor_hash, unpack
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.serving import evaluation
from fedsgt.serving.accuracy import evaluation_of
from fedsgt.serving.evaluation import Evaluation, evaluate, rescore
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import accept, unlearn


@pytest.fixture(scope="module")
def trained(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rescore") / "run"
    train(images.config(), path, Quiet()).ledger.close()
    return path


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> RunFolder:
    return copied(trained, tmp_path / "run")


def key(folder: RunFolder, *groups: int) -> str:
    return folder.description.keys[groups]


def kept(folder: RunFolder) -> list[Path]:
    return sorted(folder.path.glob("modules/*/test-*.safetensors"))


def shapes(found: Evaluation) -> list[int]:
    return [len(curve) for curve in found.sequences]


def delete_one(folder: RunFolder, images: World, group: int) -> int:
    """Delete one record of a group, to the end, and return the ledger's position then."""
    client, record = record_in(images, folder, group)
    unlearn(folder, [Deletion(client, records=(record,))])
    return folder.live().position


def test_what_a_deletion_left_is_scored_as_a_fresh_evaluation_would(
    folder: RunFolder, images: World, tmp_path: Path
) -> None:
    evaluate(folder)
    position = delete_one(folder, images, 1)
    assert not (folder.path / "evaluation.json").exists()
    found = rescore(folder)
    assert found is not None
    assert (found.position, shapes(found)) == (position, [1, 2, 0])
    assert json.loads((folder.path / "evaluation.json").read_text()) == json.loads(found.to_text())
    for file in (*kept(folder), folder.path / "evaluation.json"):
        file.unlink()
    fresh = evaluate(open_run(folder.path))
    assert (found.sequences, found.expected, found.test) == (fresh.sequences, fresh.expected, fresh.test)
    assert set(fresh.strategies) - set(found.strategies) == {"merged"}, "which needs the modules"
    assert all(found.strategies[name] == fresh.strategies[name] for name in found.strategies)
    assert found.only_right["all"]["long"] == fresh.only_right["all"]["long"]


def test_the_next_request_destroys_what_was_scored(folder: RunFolder, images: World) -> None:
    evaluate(folder)
    delete_one(folder, images, 1)
    first = rescore(folder)
    delete_one(folder, images, 0)
    assert not (folder.path / "evaluation.json").exists()
    second = rescore(folder)
    assert first is not None
    assert second is not None
    assert shapes(second) == [0, 1, 0]
    assert second.position > first.position


def test_neither_torch_nor_the_test_source_is_needed(
    folder: RunFolder, images: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate(folder)
    delete_one(folder, images, 1)
    code = f"""
import sys
from pathlib import Path
from fedsgt.runs import records
records.load_dataset = None
from fedsgt.runs.folder import open_run
from fedsgt.serving.evaluation import rescore
print(rescore(open_run(Path({str(folder.path)!r}))).strategies["all"].accuracy)
print(sorted({{"torch", "transformers", "pyarrow"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    accuracy, loaded = done.stdout.split("\n")[:2]
    assert loaded == "[]"
    assert float(accuracy) == evaluate(folder).strategies["all"].accuracy


def test_files_of_an_older_version_take_their_labels_from_the_test_source(
    folder: RunFolder, images: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_labels(run: RunFolder, *_: object) -> None:
        for file in kept(run):
            tensors = {"probabilities": unpack(file.read_bytes())["probabilities"]}
            file.write_bytes(pack(tensors, tensor_hash(tensors)))

    evaluate(folder)
    delete_one(folder, images, 1)
    without_labels(folder)
    expected = rescore(folder)
    (folder.path / "evaluation.json").unlink()
    assert expected is not None
    assert expected.strategies["all"] == evaluate(folder).strategies["all"]
    # If the source has other records by now, labels of these records are nowhere to be had.
    (folder.path / "evaluation.json").unlink()
    without_labels(folder)
    data = folder.config.data.model_copy(update={"test_limit": 4})
    other = RunFolder(folder.path, folder.config.model_copy(update={"data": data}), folder.description)
    assert rescore(other) is None


def test_of_several_test_sets_the_present_one_counts(folder: RunFolder, images: World) -> None:
    data = folder.config.data.model_copy(update={"test_limit": 4})
    other = RunFolder(folder.path, folder.config.model_copy(update={"data": data}), folder.description)
    evaluate(other)
    evaluate(folder)
    delete_one(folder, images, 1)
    found = rescore(folder)
    assert found is not None
    assert found.records == 6
    (folder.path / "evaluation.json").unlink()
    found = rescore(other)
    assert found is not None
    assert found.records == 4


def test_what_is_not_known_is_not_scored(folder: RunFolder, images: World) -> None:
    assert rescore(folder) is None, "never evaluated"
    evaluate(folder)
    delete_one(folder, images, 1)
    (folder.path / "modules" / key(folder, 0)).joinpath(kept(folder)[0].name).unlink()
    assert rescore(folder) is None, "one live module was not evaluated"
    delete_one(folder, images, 0)
    assert rescore(folder) is not None, "that one is dead now"
    delete_one(folder, images, 2)
    assert rescore(folder) is None, "nothing is live"
    assert not (folder.path / "evaluation.json").exists()


def test_a_fuller_evaluation_is_not_replaced(folder: RunFolder) -> None:
    whole = evaluate(folder)
    assert rescore(folder) == whole
    assert "merged" in whole.strategies


def test_nothing_is_written_while_a_request_is_not_completed(folder: RunFolder, images: World) -> None:
    evaluate(folder)
    old = (folder.path / "evaluation.json").read_bytes()
    client, record = record_in(images, folder, 1)
    accept(folder, [Deletion(client, records=(record,))])
    assert rescore(folder) is None
    assert (folder.path / "evaluation.json").read_bytes() == old, "left for its destruction"


def test_a_request_meanwhile_leaves_nothing_of_what_it_killed(
    folder: RunFolder, images: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate(folder)
    delete_one(folder, images, 1)
    elsewhere = open_run(folder.path)
    client, record = record_in(images, folder, 0)

    def interrupted(*arguments: Any) -> Evaluation:
        found = evaluation_of(*arguments)
        if len(elsewhere.live().requests) == 1:
            accept(elsewhere, [Deletion(client, records=(record,))])
        return found

    monkeypatch.setattr("fedsgt.serving.evaluation.evaluation_of", interrupted)
    assert rescore(folder) is None, "the second request is not completed"
    assert not (folder.path / "evaluation.json").exists()


def test_more_than_a_deletion_should_wait_for_is_not_read(
    folder: RunFolder, images: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate(folder)
    delete_one(folder, images, 1)
    monkeypatch.setattr(evaluation, "MOST_NUMBERS", 3 * 6 * 3 - 1)  # modules, records and labels
    assert rescore(folder) is None
    monkeypatch.setattr(evaluation, "MOST_NUMBERS", 3 * 6 * 3)
    assert rescore(folder) is not None
