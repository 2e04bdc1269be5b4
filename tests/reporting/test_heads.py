"""Facts on solved heads: what they are solved from, and what is missing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tiny_world import Quiet, World

from fedsgt.build.train import train
from fedsgt.reporting.heads import (
    a_record_is_left,
    heads_status,
    solved_heads_answer,
    trained_heads_serve,
)
from fedsgt.reporting.impact import impact
from fedsgt.reporting.status import run_status
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.runs.statistics import present_statistics
from fedsgt.serving import evaluation
from fedsgt.serving.evaluation import evaluate, rescore
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.retrain import due
from fedsgt.unlearning.unlearn import unlearn


@pytest.fixture(scope="module")
def trained(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("status-heads") / "run"
    folder = train(images.config("heads.solve=true"), path, Quiet())
    evaluate(folder)
    folder.ledger.close()
    return path


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> RunFolder:
    return open_run(shutil.copytree(trained, tmp_path / "run"))


def delete(folder: RunFolder, *clients: str) -> None:
    for client in clients:
        unlearn(folder, [Deletion(client)])


def test_a_whole_run_lacks_nothing(folder: RunFolder) -> None:
    live = folder.live()
    found = heads_status(folder, live, live.prefixes(folder.present()))
    assert found is not None
    assert (found.records, found.clients, found.chains, found.statistics, found.missing) == (48, 4, 10, 40, 0)
    sizes = [(folder.path / name.file).stat().st_size for name in present_statistics(folder)]
    assert found.bytes == sum(sizes)
    assert found.floor == pytest.approx(0.5 / 27.5)
    assert solved_heads_answer(folder, live)


def test_a_run_is_never_exhausted_while_a_record_is_left(folder: RunFolder) -> None:
    delete(folder, "c0", "c1", "c2")
    rescore(folder)
    found = run_status(folder)
    assert (found.live_counts.modules, found.exhausted, found.solved) == (0, False, True)
    assert found.heads is not None
    assert (found.heads.records, found.heads.floor) == (12, 1.0)
    assert found.accuracy is not None
    assert found.evaluation is not None
    assert found.evaluation.floor == found.accuracy
    assert [one.alive for one in found.evaluation.expected] == [1.0] * 10
    told = found.to_json()
    assert (told["exhausted"], told["forecast"]["requests_left"], told["forecast"]["alive"][-1]) == (
        False,
        None,
        1.0,
    )
    assert told["forecast"]["some_module"][0] == 0.0
    ahead = impact(folder, [Deletion("c3")], accuracy=True)
    assert (ahead.before.exhausted, ahead.after.exhausted, ahead.after.accuracy) == (False, True, None)
    delete(folder, "c3")
    assert run_status(folder).exhausted
    assert "No record is left" in run_status(folder).advice()
    assert not a_record_is_left(folder.live())


def test_missing_statistics_are_asked_for(folder: RunFolder) -> None:
    delete(folder, "c0", "c1")
    for name in present_statistics(folder):
        (folder.path / name.file).unlink()
    found = run_status(folder)
    assert found.exhausted
    assert (found.urgency, found.advice()[:19]) == ("now", "Run fedsgt heads no")


def test_damage_that_headers_show_is_counted(folder: RunFolder) -> None:
    first, second, *_ = sorted(present_statistics(folder))
    for name in (first, second):
        file = folder.path / name.file
        file.write_bytes(file.read_bytes()[:-1])
    found = run_status(folder)
    assert found.heads is not None
    assert (found.heads.missing, found.heads.damaged, found.heads.statistics) == (0, 2, 40)
    assert (found.urgency, "makes the 2 damaged statistics" in found.advice()) == ("soon", True)
    assert found.to_json()["heads"]["damaged"] == 2


def test_trained_heads_serve_by_setting_and_merged_while_a_module_is_live(
    folder: RunFolder, images: World, tmp_path: Path
) -> None:
    assert not trained_heads_serve(folder)
    for setting, whole, without_modules in (
        ("serving.heads=trained", True, True),
        ("serving.strategy=merged", True, False),
    ):
        run = train(images.config("heads.solve=true", setting), tmp_path / setting[-6:], Quiet())
        assert trained_heads_serve(run) == whole
        delete(run, "c0", "c1", "c2")
        assert trained_heads_serve(run) == without_modules


def test_the_answer_to_a_deletion_waits_for_few_heads_only(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete(folder, "c0")
    monkeypatch.setattr(evaluation, "MOST_SOLVED", 1000)
    assert rescore(folder) is None
    assert rescore(folder, patient=True) is not None


def test_a_preview_takes_heads_as_they_are(folder: RunFolder) -> None:
    found = impact(folder, [Deletion("c0"), Deletion("c1"), Deletion("c2")], accuracy=True)
    assert (found.after.live_counts.modules, found.after.exhausted, found.after.solved) == (0, False, True)
    assert found.after.accuracy is not None
    assert found.after.to_json()["requests_left"] is None


def test_a_policy_of_accuracy_asks_the_accuracy_also_without_a_module(images: World, tmp_path: Path) -> None:
    settings = ("unlearning.retrain=below-accuracy", "unlearning.threshold=0.5")
    for solve, asked in (("true", None), ("false", "no module is live")):
        run = train(images.config(f"heads.solve={solve}", *settings), tmp_path / solve, Quiet())
        delete(run, "c0", "c1", "c2")
        assert due(run, run.live(), lambda: 0.9) == asked
