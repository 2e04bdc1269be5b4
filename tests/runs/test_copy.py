"""A deliberate copy: a run of its own that serves, deletes and verifies; its original stays as it is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from databases import postgres_url
from paper_run import delete, describe, fill, paper_run
from tiny_deletions import bytes_of, prefixes, problems, trained_run
from tiny_world import Quiet, World

from fedsgt.build.train import train
from fedsgt.errors import InputError
from fedsgt.ledger.ledger import Ledger, RolledBack
from fedsgt.proof.verify import verify
from fedsgt.runs.copy import copy_run
from fedsgt.runs.folder import RunFolder, ledger_url, open_run
from fedsgt.runs.statistics import present_statistics, statistics_in_force
from fedsgt.serving.evaluation import evaluate
from fedsgt.serving.predictor import Predictor
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import accept, recover, unfinished, unlearn

ROTATIONS = [(0, 1, 2), (2, 0, 1), (1, 2, 0)]


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = paper_run(tmp_path / "run", describe(ROTATIONS, [5, 5, 5]))
    fill(made)
    delete(made, 2)
    return made


def test_only_what_is_live_is_copied(folder: RunFolder, tmp_path: Path) -> None:
    (folder.path / "report.html").write_text('<meta name="fedsgt-ledger" content="99">')
    (folder.path / "registers").mkdir()
    (folder.path / "registers" / "0.json").write_text("{}")
    before = bytes_of(folder.path)
    made = copy_run(folder, tmp_path / "copy")
    live = {entry.key for entry in folder.live().modules()}
    assert bytes_of(folder.path) == before
    assert bytes_of(made.path).keys() == {
        "run.toml",
        "run.json",
        "registers/0.json",
        *(f"modules/{key}/{name}" for key in live for name in ("manifest.json", "module.safetensors")),
    }
    assert (made.path / "registers/0.json").stat().st_mode & 0o777 == 0o600
    assert all(made.modules.state(key) == "present" for key in live)


def test_its_history_is_the_same_under_another_id(folder: RunFolder, tmp_path: Path) -> None:
    old = folder.ledger.entries()
    made = copy_run(folder, tmp_path / "copy")
    new = made.ledger.entries()
    assert made.description.id != folder.description.id
    assert [(e.kind, e.time, e.body) for e in new[: len(old)]] == [(e.kind, e.time, e.body) for e in old]
    origin = {"run": folder.description.id, "position": len(old), "hash": old[-1].hash}
    assert [(e.kind, e.body) for e in new[len(old) :]] == [
        ("copied", origin),
        ("rebuilt", {"description": made.description.hash(), "as_of": 0}),
    ]
    assert made.live().dead == {2}
    assert made.live().copied == len(old) + 1


def test_earlier_requests_need_no_certificate_in_the_copy(folder: RunFolder, tmp_path: Path) -> None:
    made = copy_run(folder, tmp_path / "copy")
    assert (unfinished(made), recover(made).completed, problems(made)) == ([], [], [])
    answer = delete(made, 0)
    assert answer.certificate is not None
    assert [path.name for path in (made.path / "certificates").iterdir()] == [answer.certificate.name]
    assert made.live().dead == {0, 2}
    assert folder.live().dead == {2}
    assert problems(made) == []
    again = copy_run(made, tmp_path / "again")
    assert again.live().dead == {0, 2}
    assert (unfinished(again), problems(again)) == ([], [])


def test_an_interrupted_request_is_completed_in_the_copy(folder: RunFolder, tmp_path: Path) -> None:
    accepted = accept(folder, [Deletion("client-0")])
    made = copy_run(folder, tmp_path / "copy")
    assert recover(made).completed == [accepted.position]
    assert (unfinished(made), problems(made)) == ([], [])


def test_a_ledger_in_postgresql_holds_both(tmp_path: Path) -> None:
    url = postgres_url()
    one = paper_run(tmp_path / "run", describe(ROTATIONS, [5, 5, 5]), f"unlearning.ledger={url}")
    fill(one)
    delete(one, 2)
    made = copy_run(one, tmp_path / "copy")
    assert ledger_url(made.path, made.config) == url
    delete(made, 0)
    assert open_run(made.path).live().dead == {0, 2}
    assert open_run(one.path).live().dead == {2}


def test_modules_of_an_object_store_come_into_the_folder(tmp_path: Path) -> None:
    place = tmp_path / "objects"
    one = paper_run(tmp_path / "run", describe(ROTATIONS, [5, 5, 5]), f"store.url=file://{place}")
    fill(one)
    made = copy_run(one, tmp_path / "copy")
    shutil.rmtree(place)
    assert made.config.store.url is None
    assert all(made.modules.state(key) == "present" for key in made.description.keys.values())
    assert problems(made) == []


def test_a_place_that_is_taken(folder: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    with pytest.raises(InputError, match="already there"):
        copy_run(folder, tmp_path / "copy")


def test_it_appears_whole_or_not_at_all(
    folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "copy", fail)
        with pytest.raises(InputError, match="No space left"):
            copy_run(folder, tmp_path / "copy")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["run"]
    child = os.fork()
    if child == 0:
        monkeypatch.setattr("fedsgt.runs.copy.ledger_url", lambda *_: os._exit(7))
        copy_run(open_run(folder.path), tmp_path / "copy")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert not (tmp_path / "copy").exists()
    assert copy_run(folder, tmp_path / "copy").live().dead == {2}
    assert not (tmp_path / ".copy.new").exists()


def test_a_run_that_was_rolled_back_is_not_copied(folder: RunFolder, tmp_path: Path) -> None:
    folder.ledger.close()
    shutil.copytree(folder.path, tmp_path / "backup")
    delete(open_run(folder.path), 0)
    with pytest.raises(RolledBack):
        copy_run(open_run(tmp_path / "backup"), tmp_path / "copy")


def test_a_trained_copy_predicts_deletes_retrains_and_verifies(images: World, tmp_path: Path) -> None:
    folder = open_run(trained_run(images, tmp_path / "run"))
    evaluate(folder)
    made = copy_run(folder, tmp_path / "copy")
    assert prefixes(made) == prefixes(folder)
    assert (made.path / "evaluation.json").is_file()
    assert problems(made) == []
    assert verify(made).passed
    contents = [row.content for row in images.rows[:4]]
    here, there = (Predictor(run).predict(contents).probabilities for run in (folder, made))
    assert np.array_equal(here, there)
    unlearn(made, [Deletion("c1")])
    again = train(made.config, made.path, Quiet(), recover)
    assert (problems(again), again.live().dead) == ([], frozenset())
    assert folder.live().requests == ()


def test_statistics_that_count_come_along_and_others_do_not(images: World, tmp_path: Path) -> None:
    run = open_run(trained_run(images, tmp_path / "run", ["heads.solve=true"]))
    accept(run, [Deletion("c0", slices=(0,))])  # its files are still there
    left = present_statistics(run)
    counting = {name for names in statistics_in_force(run, run.live()).values() for name in names}
    assert counting < left
    made = copy_run(run, tmp_path / "copy")
    assert present_statistics(made) == counting
    assert {name for names in statistics_in_force(made, made.live()).values() for name in names} == counting
    for name in counting:
        assert (made.path / name.file).read_bytes() == (run.path / name.file).read_bytes()
    recover(made)
    assert problems(made) == []
