"""The report: where and when it is written, and never of what was live before a request."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from html_page import Page
from paper_run import delete, describe, fill, paper_run
from tiny_deletions import copied
from tiny_world import Quiet, World

from fedsgt.build.train import train
from fedsgt.errors import InputError
from fedsgt.reporting.costs import run_costs
from fedsgt.reporting.page import render_page
from fedsgt.reporting.report import Report, write_report
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.serving.evaluation import evaluate, rescore
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = paper_run(tmp_path / "run", describe([(0, 1, 2), (2, 0, 1), (1, 2, 0)], [10, 20, 30]))
    fill(made)
    return made


@pytest.fixture(scope="module")
def trained(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "run"
    made = train(images.config(), path, Quiet())
    evaluate(made)
    made.ledger.close()
    return path


# --- where and when it is written


def test_the_page_is_made_again_if_a_request_comes_meanwhile(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = list[int]()

    def interrupted(found: Report, place: Path) -> str:
        text = render_page(found, place)
        if not made:
            delete(folder, 2)
        made.append(found.status.position)
        return text

    monkeypatch.setattr("fedsgt.reporting.report.render_page", interrupted)
    page = Page(write_report(folder))
    assert made == [2, folder.ledger.head()]
    assert page.position == folder.ledger.head()
    assert "3 of 9" in page.words


def test_the_next_request_destroys_it(folder: RunFolder) -> None:
    path = write_report(folder)
    delete(folder, 2)
    assert not path.exists()


def test_a_copy_elsewhere_links_back(folder: RunFolder, tmp_path: Path) -> None:
    delete(folder, 2)
    (tmp_path / "pages").mkdir()
    path = write_report(folder, tmp_path / "pages" / "copy of it.html")
    assert Page(path).links == ["../run/certificates/000003.json"]
    assert not (folder.path / "report.html").exists()


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("run/other.html", "give a file outside"),
        ("run/modules/x.html", "give a file outside"),
        ("nowhere/page.html", "does not exist"),
        (".", "is a folder"),
    ],
)
def test_a_place_that_will_not_do_is_refused(folder: RunFolder, output: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as refused:
        write_report(folder, folder.path.parent / output)
    assert "\n" not in str(refused.value)


# --- accuracies


def test_accuracies_are_those_of_a_current_evaluation_only(trained: Path, tmp_path: Path) -> None:
    folder = open_run(shutil.copytree(trained, tmp_path / "run"))
    page = Page(write_report(folder))
    assert "on 6 test records" in page.said
    assert "AllSeq all live sequences" in page.said
    old = (folder.path / "evaluation.json").read_bytes()
    unlearn(folder, [Deletion("c1", slices=(0,))])
    (folder.path / "evaluation.json").write_bytes(old)
    page = Page(write_report(folder))
    assert "Not measured since the last change" in page.said
    assert "95 % interval" not in page.said


def test_what_is_missing_is_measured_and_looked_ahead(trained: Path, tmp_path: Path) -> None:
    folder = open_run(shutil.copytree(trained, tmp_path / "run"))
    unlearn(folder, [Deletion("c1", slices=(0,))])
    calls = []

    def measure(run: RunFolder) -> None:
        calls.append(run.ledger.head())
        evaluate(run)

    for _ in range(2):
        page = Page(write_report(folder, evaluate=measure))
    assert calls == [folder.ledger.head()]
    assert "expected accuracy, if anything is live" in page.said
    assert "Expected accuracies are those of AllSeq; those after more than one request are means" in page.said


def test_an_evaluation_that_lacks_something_is_made_again(trained: Path, tmp_path: Path) -> None:
    folder = copied(trained, tmp_path / "run")
    file, calls = folder.path / "evaluation.json", list[int]()

    def measure(run: RunFolder) -> None:
        calls.append(run.ledger.head())
        evaluate(run)

    write_report(folder, evaluate=measure)
    assert calls == []
    # As an older version wrote it.
    told = json.loads(file.read_text())
    older = {name: value for name, value in told.items() if not name.startswith("expected")}
    file.write_text(json.dumps(older))
    write_report(folder, evaluate=measure)
    assert len(calls) == 1
    serving = folder.config.serving.model_copy(update={"strategy": "merged"})
    merging = RunFolder(
        folder.path, folder.config.model_copy(update={"serving": serving}), folder.description
    )
    unlearn(folder, [Deletion("c1", slices=(0,))])
    assert rescore(merging) is not None
    assert "merged" not in json.loads(file.read_text())["strategies"]
    page = Page(write_report(merging, evaluate=measure))
    assert len(calls) == 2
    assert "accuracy of what is served (merged)" in page.said


def test_a_failing_measurement_is_not_repeated_for_ever(folder: RunFolder) -> None:
    def fail(run: RunFolder) -> None:
        run.modules.get("0" * 64)

    with pytest.raises(InputError, match="0000"):
        write_report(folder, evaluate=fail)


# --- costs


def test_training_leaves_the_time_of_every_module(trained: Path, tmp_path: Path) -> None:
    folder = open_run(shutil.copytree(trained, tmp_path / "run"))
    found = run_costs(folder, folder.live(), folder.present())
    every = sum(sum(client.records) for client in folder.description.clients)
    assert (found.whole.timed, found.whole.modules) == (9, 9)
    assert found.whole.records == 6 * every  # three sequences that pass over a third, two thirds, and all
    assert all(part.seconds > 0 for part in (*found.depths, *found.sequences))
    assert "a sequence) of workers' time" in Page(write_report(folder)).said
