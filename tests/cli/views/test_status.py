"""The status on one screen: the tree of modules, and what a terminal or a file can show."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import shown
from paper_run import delete, describe, fill, paper_run
from rich.console import Console

from fedsgt.cli.views.status import StatusView
from fedsgt.plans import rotations
from fedsgt.reporting.status import run_status
from fedsgt.runs.folder import RunFolder
from fedsgt.serving.accuracy import Accuracy, Evaluation, ExpectedAccuracy

BRANCHED = [(0, 1, 2, 3), (0, 1, 3), (2, 3)]


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = paper_run(tmp_path / "run", describe(BRANCHED, [10, 20, 30, 40]))
    fill(made, lambda prefix: prefix != (0, 1, 3))
    return made


def test_the_tree_shows_live_dead_and_missing_modules(folder: RunFolder) -> None:
    delete(folder, 2)
    page = shown("status", str(folder.path)).splitlines()
    assert page[0] == f"{folder.path}: 2 of 7 modules live, the longest sequence has 2 of 4 groups"
    start = page.index("sequences: live modules of all, and their groups in order")
    assert page[start + 1 : start + 5] == [
        "0  2/4  0──1┬x2─x3",
        "1  2/3      └?3",
        "2  0/2 x2─x3",
        "  live: 2, x dead: 4, ? not trained yet: 1",
    ]


def test_exhaustion_is_loud(folder: RunFolder) -> None:
    delete(folder, 0, 2)
    page = shown("status", str(folder.path))
    assert page.startswith(f"{folder.path}: EXHAUSTED: no module is live\nRetrain now")
    assert "P(still alive)" not in page


def test_large_plans_are_cut(tmp_path: Path) -> None:
    folder = paper_run(tmp_path / "run", describe(rotations(30).sequences, [5] * 30))
    page = shown("status", str(folder.path)).splitlines()
    drawn = [line for line in page if line.lstrip().startswith(tuple("0123456789")) and "/30" in line]
    assert len(drawn) == 20
    assert all(line.endswith("…") for line in drawn)
    assert any(
        line.startswith("  10 more sequences; all 30 have 0 live modules, half have 0 or more")
        for line in page
    )


def test_a_terminal_gets_strokes_and_plain_output_gets_plain_signs(folder: RunFolder) -> None:
    delete(folder, 2)
    console = Console(force_terminal=True, color_system="standard", width=100)
    with console.capture() as page:
        console.print(StatusView(console).page(folder.path, run_status(folder)))
    assert "\x1b[2;9;31mx2" in page.get()


def test_an_output_without_line_drawing_gets_ascii(folder: RunFolder, tmp_path: Path) -> None:
    with (tmp_path / "page").open("w", encoding="ascii") as file:
        console = Console(file=file, width=100)
        console.print(StatusView(console).page(folder.path, run_status(folder)))
    assert "0--1+-2--3" in (tmp_path / "page").read_text()


def evaluated(folder: RunFolder, accuracy: float, ahead: list[ExpectedAccuracy]) -> None:
    served = Accuracy(accuracy, accuracy - 0.05, accuracy + 0.05)
    curves = [[served] * len(prefix) for prefix in folder.live().prefixes(folder.present())]
    better = Accuracy(accuracy + 0.1, accuracy, accuracy + 0.2)
    only = {"all": {"long": 0}, "long": {"all": 40}}
    found = Evaluation(
        folder.ledger.head(), 400, curves, {"all": served, "long": better}, None, "test-0", only, "all", ahead
    )
    (folder.path / "evaluation.json").write_text(found.to_text())


def test_accuracy_stands_below_the_advice_and_in_the_forecast(folder: RunFolder) -> None:
    delete(folder, 2)
    page = shown("status", str(folder.path)).splitlines()
    assert page[2] == f"accuracy not known; fedsgt evaluate {folder.path} measures it"
    assert "further requests  P(still alive)  expected live groups" in page
    evaluated(folder, 0.85, [ExpectedAccuracy(1, 0.8, 0.0, 0.5), ExpectedAccuracy(2, 0.7, 0.01, 0.4)])
    page = shown("status", str(folder.path)).splitlines()
    assert page[2:4] == [
        "accuracy 85.0% (95 % interval 80.0 to 90.0; AllSeq, 400 test records)",
        'LongSeq would be right on 95.0% of the test records (AllSeq: 85.0%): set serving.strategy = "long".',
    ]
    (start,) = (at for at, line in enumerate(page) if line.startswith("further requests"))
    assert page[start].endswith("expected accuracy, if alive")
    cells = [line.split() for line in page[start + 1 : start + 4]]
    assert [row[3:] for row in cells] == [["80.0%"], ["70.0%", "±", "1.0%"], []]


def test_requests_name_their_clients(folder: RunFolder) -> None:
    delete(folder, 1, 3)
    assert "client-1, client-3  2 slices (60 records)" in shown("status", str(folder.path))


@pytest.mark.parametrize(("accuracy", "colour"), [(0.5, "1;31"), (0.9, "1;33")])
def test_advice_is_coloured_on_a_terminal(folder: RunFolder, accuracy: float, colour: str) -> None:
    delete(folder, 2)
    evaluated(folder, accuracy, [])
    console = Console(force_terminal=True, color_system="standard", width=100)
    with console.capture() as page:
        console.print(StatusView(console).page(folder.path, run_status(folder)))
    assert f"\x1b[{colour}mRetrain" in page.get()
