"""`fedsgt report`: JSON instead of a page, and where pages are written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import fedsgt
from documents import ROOT
from paper_run import describe, fill, paper_run

from fedsgt.reporting.report import read_report
from fedsgt.runs.folder import RunFolder, open_run

ROTATIONS = [(0, 1, 2), (2, 0, 1), (1, 2, 0)]


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


def test_the_json_has_the_pages_numbers_and_its_keys_are_documented(
    folder: RunFolder, other: RunFolder
) -> None:
    done = fedsgt("report", str(folder.path), "--no-evaluate", "--json", "--against", str(other.path))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert not (folder.path / "report.html").exists()
    assert found == {**read_report(open_run(folder.path)).to_json(), "made": found["made"]}
    costs, comparison = found["costs"], found["comparison"]
    text = (ROOT / "docs/status.md").read_text(encoding="utf-8")
    for part in (found, costs, costs["seconds"], costs["per_client"], comparison, comparison["runs"][0]):
        for key in part:
            assert f"`{key}`" in text, key


def test_json_writes_no_file(folder: RunFolder, tmp_path: Path) -> None:
    done = fedsgt("report", str(folder.path), "--json", "-o", str(tmp_path / "x.html"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "leave out -o" in done.stderr


def test_a_page_outside_the_run_is_warned_of(folder: RunFolder, tmp_path: Path) -> None:
    """A deletion destroys the page in the run's folder, and knows of no other."""
    inside = fedsgt("report", str(folder.path), "--no-evaluate")
    page = folder.path.resolve() / "report.html"
    assert (inside.stdout, inside.stderr) == (f"Wrote {page}\n", "")
    elsewhere = tmp_path / "mine.html"
    done = fedsgt("report", str(folder.path), "--no-evaluate", "-o", str(elsewhere))
    assert elsewhere.is_file()
    assert done.stderr == (
        f"fedsgt: later deletions do not reach {elsewhere.resolve()}: delete it when its figures must go\n"
    )
