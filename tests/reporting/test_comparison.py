"""A run beside others: true numbers, remembered runs, and notes where accuracies do not compare."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from html_page import Page
from paper_run import code, delete, describe, fill, paper_run

from fedsgt.config import load
from fedsgt.errors import InputError
from fedsgt.reporting.comparison import Comparison, system_of
from fedsgt.reporting.report import read_report, write_report
from fedsgt.reporting.status import run_status
from fedsgt.runs.folder import RunFolder
from fedsgt.serving.accuracy import Accuracy, Evaluation

ROTATIONS = [(0, 1, 2), (2, 0, 1), (1, 2, 0)]
SERVED = Accuracy(0.75, 0.7, 0.8)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = paper_run(tmp_path / "run", describe(ROTATIONS, [10, 20, 30]))
    fill(made)
    return made


@pytest.fixture
def other(tmp_path: Path) -> RunFolder:
    """Return a run like FedAvg: one group, four rounds."""
    made = paper_run(tmp_path / "other", describe([(0,)], [10]), "training.rounds=4")
    fill(made)
    return made


def evaluated(folder: RunFolder, test: str) -> None:
    """Write an evaluation as `fedsgt evaluate` does, on test records of this name."""
    served = folder.live().prefixes(folder.present())
    curves = [[SERVED] * len(prefix) for prefix in served]
    found = Evaluation(folder.ledger.head(), 40, curves, {"all": SERVED})
    (folder.path / "evaluation.json").write_text(found.to_text())
    key = folder.description.modules[0].key
    folder.modules.objects.write(f"modules/{key}/test-{test}.safetensors", b"")


def compared(folder: RunFolder, *others: RunFolder) -> Comparison:
    found = read_report(folder, against=[one.path for one in others]).comparison
    assert found is not None
    return found


def test_a_row_for_each_run(folder: RunFolder, other: RunFolder) -> None:
    delete(folder, 2)
    own, theirs = compared(folder, other).rows
    assert (own.modules, own.live_modules, own.passes, own.rounds_per_client) == (9, 3, 6.0, 6.0)
    assert own.requests == 1
    # A fresh run has 20, 40 and 60 of 120 records in its groups: the last of all three, by inclusion.
    assert own.until_exhausted == pytest.approx(6 + 3 + 2 - (2 + 3 / 2 + 6 / 5) + 1)
    # Groups 0 and 1 still begin a sequence. Of 90 records left, 20 are in the one and 40 in the other.
    alive = [(7 / 9) ** n + (5 / 9) ** n - (3 / 9) ** n for n in (10, 20)]
    assert own.alive == pytest.approx(alive)
    assert (theirs.modules, theirs.live_modules, theirs.passes, theirs.rounds_per_client) == (1, 1, 4.0, 4.0)
    assert (theirs.requests, theirs.until_exhausted, theirs.alive) == (0, 1.0, [0.0, 0.0])
    assert theirs.system.startswith("1 group (random), 1 sequence (rotations), 4 rounds a module")


def test_a_group_is_hit_as_often_as_it_has_records(folder: RunFolder, tmp_path: Path) -> None:
    # Slices of 0, 10, 20, 20, 30 and 30 records in three, two and one: 30, 50 and 30 of 110.
    uneven = describe(ROTATIONS, [10, 20, 30], fresh={0}, group_of=[0, 0, 0, 1, 1, 2])
    other = paper_run(tmp_path / "other", uneven)
    fill(other)
    row = compared(folder, other).rows[1]
    a, b = 30 / 110, 50 / 110
    assert row.until_exhausted == pytest.approx(2 / a + 1 / b - 2 / (a + b) - 1 / (2 * a) + 1)
    alive = [2 * (1 - a) ** n + (1 - b) ** n - 2 * a**n - b**n for n in (10, 20)]
    assert row.alive == pytest.approx(alive)


def test_a_chance_is_the_same_wherever_the_page_shows_it(folder: RunFolder, other: RunFolder) -> None:
    assert compared(folder, other).rows[0].until_exhausted == pytest.approx(
        run_status(folder).forecast.requests_left
    ), "a run without requests is fresh"
    delete(folder, 2)
    status = run_status(folder, 20).forecast
    own = compared(folder, other).rows[0]
    assert own.alive == pytest.approx([float(status.alive[count]) for count in (10, 20)])
    page = Page(write_report(folder, against=[other.path])).said
    assert page.count(f"{float(status.alive[10]):.1%}") >= 3, "in the tile, the forecast and the comparison"


def test_an_exhausted_run_is_shown(folder: RunFolder, other: RunFolder) -> None:
    delete(other, 0)
    row = compared(folder, other).rows[1]
    assert (row.live_modules, row.alive) == (0, [0.0, 0.0])


def test_isolated_parts_and_retraining_are_named(folder: RunFolder) -> None:
    again = load(None, ["unlearning.retrain=now"])
    assert system_of(again, folder.description).endswith("lora of rank 16, retrain now")
    for sequences, words in (
        ([(0, 1), (1, 0), (2, 3), (3, 2)], "4 groups (random) in 2 isolated parts, 4 sequences"),
        ([(0, 1), (2, 3), (1, 2), (0, 3)], "4 groups (random), 4 sequences"),
    ):
        assert words in system_of(folder.config, describe(sequences, [5] * 4))


def test_runs_are_remembered_and_computed_anew(folder: RunFolder, other: RunFolder) -> None:
    assert "Comparison" not in Page(write_report(folder)).words
    write_report(folder, against=[other.path, other.path])
    assert json.loads((folder.path / "compared.json").read_text()) == [str(other.path.resolve())]
    before = Page(write_report(folder)).said
    assert "other 1 group (random)" in before
    assert "1 live of 1" in before
    delete(other, 0)
    assert "0 live of 1" in Page(write_report(folder)).said
    delete(folder, 0)  # a deletion leaves the list
    assert "Comparison" in Page(write_report(folder)).words


def test_a_remembered_run_that_is_gone_is_left_out(folder: RunFolder, other: RunFolder) -> None:
    compared(folder, other)
    other.ledger.close()
    shutil.rmtree(other.path)
    page = Page(write_report(folder))
    assert f"Left out: {other.path.resolve()}: no such run" in page.said
    found = read_report(folder).comparison
    assert found is not None
    assert [row.path.name for row in found.rows] == ["run"]
    assert len(found.left_out) == 1


def test_a_wrong_folder_is_told_before_anything_is_written(folder: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name, words in (("nowhere", "no such run"), ("empty", "not a run"), ("run", "the run itself")):
        with pytest.raises(InputError, match=words) as refused:
            write_report(folder, against=[tmp_path / name])
        assert "\n" not in str(refused.value)
    assert not (folder.path / "compared.json").exists()
    assert not (folder.path / "report.html").exists()


def test_a_list_that_cannot_be_read_is_told(folder: RunFolder) -> None:
    for text in ("{", "{}", "[1]"):
        (folder.path / "compared.json").write_text(text)
        with pytest.raises(InputError, match="may be removed"):
            write_report(folder)


def test_accuracies_that_do_not_compare_are_marked(folder: RunFolder, tmp_path: Path) -> None:
    others = []
    for name, test, backbone in (
        ("same", "aa", "backbone"),
        ("test", "bb", "backbone"),
        ("backbone", "aa", "another"),
        ("unmeasured", None, "backbone"),
    ):
        made = paper_run(tmp_path / name, describe(ROTATIONS, [5] * 3, backbone=code(backbone)))
        fill(made)
        if test:
            evaluated(made, test)
        others.append(made)
    evaluated(folder, "aa")
    found = compared(folder, *others)
    assert [found.unlike(row) for row in found.rows] == [
        [],
        [],
        ["other test records"],
        ["another backbone"],
        [],
    ]
    assert [row.accuracy for row in found.rows] == [SERVED] * 4 + [None]
    said = Page(write_report(folder)).said
    assert "test has other test records: its accuracy is not comparable with run's." in said
    assert "backbone has another backbone" in said
    assert "75.0% 70.0 to 80.0" in said
    assert "fedsgt evaluate measures the accuracies that are not measured yet" in said


def test_names_from_outside_are_escaped_and_told_apart(folder: RunFolder, tmp_path: Path) -> None:
    odd = paper_run(tmp_path / "<i>&", describe(ROTATIONS, [5] * 3))
    namesake = paper_run(tmp_path / "elsewhere" / "run", describe(ROTATIONS, [5] * 3))
    page = Page(write_report(folder, against=[odd.path]))
    assert "<i>&" in page.words
    assert "i" not in page.tags
    page = Page(write_report(folder, against=[namesake.path]))
    assert {str(folder.path.resolve()), str(namesake.path.resolve())} <= set(page.words)
