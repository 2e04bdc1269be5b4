"""The tree of modules: each module once, and branches below the place where they part."""

from __future__ import annotations

from pathlib import Path

from paper_run import describe, paper_run

from fedsgt.reporting.module_tree import TreeRow, draw_tree, tree_rows
from fedsgt.reporting.status import run_status

# Two branches below [0, 1], and one sequence beside them.
BRANCHED = [(0, 1, 2, 3), (0, 1, 3), (2, 3)]


def test_each_module_is_drawn_once_and_branches_hang_below() -> None:
    assert tree_rows(BRANCHED) == [
        TreeRow(0, (0, 1, 2, 3), 0, (True, False, True, False)),
        TreeRow(1, (0, 1, 3), 2, (True, False, False)),
        TreeRow(2, (2, 3), 0, (False, False)),
    ]


def test_branches_stay_together_and_repeated_or_contained_sequences_have_no_row() -> None:
    found = tree_rows([(0, 1), (2,), (0, 2), (0, 1), (0, 1, 3), (0,)])
    assert [(row.sequence, row.path, row.start) for row in found] == [
        (4, (0, 1, 3), 0),
        (2, (0, 2), 1),
        (1, (2,), 0),
    ]


def test_a_plan_without_modules_has_an_empty_tree(tmp_path: Path) -> None:
    folder = paper_run(tmp_path / "run", describe([], [10, 20]), "plan.kind=none")
    drawn, left_out = draw_tree(run_status(folder))
    assert left_out == 0
    assert "<g " not in drawn
