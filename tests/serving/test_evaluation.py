"""Evaluation of what is live: what it computes, what it keeps beside the modules, and when it begins anew."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from paper_run import describe, fill, paper_run
from tiny_world import Quiet, World

from fedsgt.build.train import train
from fedsgt.engine.inprocess import InProcess
from fedsgt.ledger.kinds import Kind
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.runs.records import load_test
from fedsgt.serving import evaluation
from fedsgt.serving.evaluation import (
    Accuracy,
    Evaluation,
    current_evaluation,
    evaluate,
    probabilities_of_test_records,
    score,
)
from fedsgt.store import CorruptModule


@pytest.fixture(scope="module")
def trained(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("evaluate") / "run"
    train(images.config(), path, Quiet()).ledger.close()
    return path


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> RunFolder:
    return open_run(shutil.copytree(trained, tmp_path / "run"))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Record every chain that workers are asked for."""
    chains: list[tuple[str, ...]] = []
    inner = InProcess.outputs

    def predict(self: InProcess, wanted: Any, *rest: Any) -> Any:
        chains.extend(wanted)
        return inner(self, wanted, *rest)

    monkeypatch.setattr(InProcess, "outputs", predict)
    return chains


def request(folder: RunFolder, *groups: int) -> int:
    with folder.ledger.writing() as writer:
        return writer.append(Kind.REQUEST, {"parts": [], "groups": list(groups)}).position


def key(folder: RunFolder, *groups: int) -> str:
    return folder.description.keys[groups]


def kept(folder: RunFolder) -> list[Path]:
    return sorted(folder.path.glob("modules/*/test-*.safetensors"))


def shapes(found: Evaluation) -> list[int]:
    return [len(curve) for curve in found.sequences]


def test_everything_is_scored_and_written(folder: RunFolder) -> None:
    found = evaluate(folder)
    assert shapes(found) == [3, 3, 3]
    assert set(found.strategies) == {"all", "min", "long", "merged"}
    assert (found.records, found.position) == (6, folder.ledger.head())
    assert found.agreement is not None
    assert 0 <= found.agreement <= 1
    assert json.loads((folder.path / "evaluation.json").read_text()) == json.loads(found.to_text())
    assert len(kept(folder)) == 9


def test_a_second_evaluation_computes_nothing_again(folder: RunFolder, asked: list[tuple[str, ...]]) -> None:
    first = evaluate(folder)
    assert len(asked) == 9
    assert evaluate(open_run(folder.path)) == first
    assert len(asked) == 9


def test_after_a_deletion_only_live_prefixes_count(folder: RunFolder, asked: list[tuple[str, ...]]) -> None:
    whole = evaluate(folder)
    position = request(folder, 1)
    left = evaluate(folder)
    assert (shapes(left), left.position) == ([1, 2, 0], position)
    assert left.sequences[1] == whole.sequences[1][:2]
    assert len(asked) == 9
    alone = open_run(folder.path)
    for file in kept(folder):
        file.unlink()
    assert evaluate(alone) == left
    assert set(asked[9:]) == {alone.description.chain(groups) for groups in ((0,), (2,), (2, 0))}


def test_exhausted_has_no_accuracy(folder: RunFolder) -> None:
    request(folder, 0, 1, 2)
    found = evaluate(folder)
    assert (shapes(found), found.strategies, found.agreement) == ([0, 0, 0], {}, None)


def test_what_is_kept_goes_with_its_module(folder: RunFolder) -> None:
    evaluate(folder)
    gone = key(folder, 2, 0)
    folder.modules.discard(gone)
    assert not (folder.path / "modules" / gone).exists()
    assert len(kept(folder)) == 8


def test_damaged_notes_are_computed_again_and_other_test_records_have_their_own(
    folder: RunFolder, images: World, asked: list[tuple[str, ...]]
) -> None:
    first = evaluate(folder)
    for file in kept(folder)[:2]:
        file.write_bytes(file.read_bytes()[:-1] + b"\x55")
    kept(folder)[2].write_bytes(b"torn")
    assert evaluate(folder) == first
    assert len(asked) == 12
    data = folder.config.data.model_copy(update={"test_limit": 4})
    other = RunFolder(folder.path, folder.config.model_copy(update={"data": data}), folder.description)
    assert evaluate(other).records == 4
    assert len(kept(folder)) == 18


def test_damaged_modules_count_as_not_there(folder: RunFolder) -> None:
    evaluate(folder)
    file = folder.path / "modules" / key(folder, 2, 0) / "module.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\x55")
    assert shapes(evaluate(folder)) == [3, 1, 3]


def test_a_deletion_meanwhile_begins_it_anew_and_leaves_nothing_of_the_dead(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere, inner = open_run(folder.path), InProcess.outputs
    moved: list[int] = []

    def predict(*arguments: Any) -> Any:
        found = inner(*arguments)
        if not moved:
            moved.append(request(elsewhere, 1))
        return found

    monkeypatch.setattr(InProcess, "outputs", predict)
    found = evaluate(folder)
    assert (found.position, shapes(found)) == (moved[0], [1, 2, 0])
    assert json.loads((folder.path / "evaluation.json").read_text())["position"] == moved[0]
    live = {entry.key for entry in elsewhere.live().modules()}
    assert {file.parent.name for file in kept(folder)} == live & {
        key(folder, *groups) for groups in ((0,), (2,), (2, 0))
    }


def test_a_deletion_while_it_is_written_is_not_written_over(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The merged model is computed last, so a request during it comes just before writing."""
    elsewhere, inner = open_run(folder.path), InProcess.predict_merged
    moved: list[int] = []

    def predict_merged(*arguments: Any) -> Any:
        found = inner(*arguments)
        if not moved:
            moved.append(request(elsewhere, 1))
        return found

    monkeypatch.setattr(InProcess, "predict_merged", predict_merged)
    found = evaluate(folder)
    assert (found.position, shapes(found)) == (moved[0], [1, 2, 0])
    assert json.loads((folder.path / "evaluation.json").read_text()) == json.loads(found.to_text())


def test_a_module_destroyed_meanwhile_begins_it_anew_and_a_lost_one_is_an_error(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere, inner = open_run(folder.path), InProcess.outputs

    def destroyed(*arguments: Any) -> Any:
        if not elsewhere.live().dead:
            request(elsewhere, 1)
            for entry in elsewhere.live().dead_modules():
                elsewhere.modules.discard(entry.key)
        return inner(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(InProcess, "outputs", destroyed)
        assert shapes(evaluate(folder)) == [1, 2, 0]

    def lost(*arguments: Any) -> Any:
        (folder.path / "modules" / key(folder, 2) / "module.safetensors").unlink(missing_ok=True)
        return inner(*arguments)

    for file in kept(folder):
        file.unlink()
    monkeypatch.setattr(InProcess, "outputs", lost)
    with pytest.raises(CorruptModule):
        evaluate(folder)


def test_what_a_deletion_would_leave_is_scored_from_what_is_kept(
    folder: RunFolder, asked: list[tuple[str, ...]]
) -> None:
    live = folder.live()
    every = [tuple(entry.groups) for entry in live.modules()]
    found = probabilities_of_test_records(folder, live, every, lambda share: None)
    labels = load_test(folder.config, folder.description.labels).labels
    expected = score("all", found, [(0,), (2, 0), ()], labels)
    mean = found[0,].astype("f8") / 3 + found[2, 0].astype("f8") * 2 / 3
    assert expected == Accuracy.of(mean, labels)
    assert score("all", found, [(), (), ()], labels) is None
    assert score("long", found, [(0,), (2, 0), ()], labels) == Accuracy.of(found[2, 0], labels)
    request(folder, 1)
    assert evaluate(folder).strategies["all"] == expected
    assert len(asked) == 9


def test_prefix_tuning_has_no_merged(images: World, tmp_path: Path) -> None:
    folder = train(images.config("peft.kind=prefix", "grouping.groups=2"), tmp_path / "run", Quiet())
    found = evaluate(folder)
    assert set(found.strategies) == {"all", "min", "long"}
    assert found.agreement is None


# --- what is expected


def test_expected_accuracies_are_those_of_what_requests_leave(folder: RunFolder) -> None:
    found = evaluate(folder)
    live = folder.live()
    every = [tuple(entry.groups) for entry in live.modules()]
    predicted = probabilities_of_test_records(folder, live, every, lambda share: None)
    labels = load_test(folder.config, folder.description.labels).labels
    records = [0, 0, 0]
    for client, groups in zip(live.description.clients, live.description.groups_of, strict=True):
        for count, group in zip(client.records, groups, strict=True):
            records[group] += count
    # A request for group 0 leaves 2 and 1, 2; one for 1 leaves 0 and 2, 0; one for 2 leaves 0, 1 and 1.
    left = [[(), (2,), (1, 2)], [(0,), (2, 0), ()], [(0, 1), (), (1,)]]
    scores = [score("all", predicted, prefixes, labels) for prefixes in left]
    mean = sum(
        count * one.accuracy for count, one in zip(records, scores, strict=True) if one is not None
    ) / sum(records)
    first = found.expected_after(1)
    assert first is not None
    assert [first.accuracy, first.stderr, first.alive] == pytest.approx([mean, 0.0, 1.0])
    assert (found.expected_strategy, len(found.expected)) == ("all", 10)
    third = found.expected_after(3)
    assert third is not None
    chances = [count / sum(records) for count in records]
    # All three groups are hit in any order with 6 times the product of their chances.
    assert third.alive == pytest.approx(1 - 6 * chances[0] * chances[1] * chances[2])


def test_the_strategy_in_use_is_the_one_that_is_expected(images: World, tmp_path: Path) -> None:
    for served, expected in (("long", "long"), ("merged", "all")):
        config = images.config("grouping.groups=2", f"serving.strategy={served}")
        found = evaluate(train(config, tmp_path / served, Quiet()))
        assert found.expected_strategy == expected
    assert found.strategies["merged"]


def test_an_expectation_that_takes_too_long_is_left_out(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "MOST_MIXED", 3 * 6 * 3)
    found = evaluate(folder)
    assert (found.expected, set(found.strategies)) == ([], {"all", "min", "long", "merged"})


# --- whether it is still true


def measured(folder: RunFolder, position: int) -> None:
    served = folder.live().prefixes(folder.present())
    curves = [[Accuracy(0.7, 0.6, 0.8)] * len(prefix) for prefix in served]
    found = Evaluation(position, 10, curves, {"all": Accuracy(0.7, 0.6, 0.8)})
    (folder.path / "evaluation.json").write_text(found.to_text())


def test_an_evaluation_is_current_until_something_dies_or_is_trained(tmp_path: Path) -> None:
    folder = paper_run(tmp_path / "run", describe([(0, 1, 2), (2, 0, 1), (1, 2, 0)], [10, 20, 30]))
    fill(folder)
    assert current_evaluation(folder, folder.live()) is None
    measured(folder, folder.ledger.head())
    assert current_evaluation(folder, folder.live()) is not None
    fill(folder)
    assert current_evaluation(folder, folder.live()) is None
    measured(folder, folder.ledger.head())
    request(folder, 0)
    assert current_evaluation(folder, folder.live()) is None
    measured(folder, folder.ledger.head() + 1)
    assert current_evaluation(folder, folder.live()) is None
    measured(folder, folder.ledger.head())
    live = folder.live()
    assert current_evaluation(folder, live, live.prefixes(folder.present())) is not None
    assert current_evaluation(folder, live, [(), (2,), (1,)]) is None, "a module was damaged since"
    for damaged in ("[", "[]", "{}", '{"position": 3, "sequences": 1, "strategies": {}}', "\x00"):
        (folder.path / "evaluation.json").write_text(damaged)
        assert current_evaluation(folder, folder.live()) is None
