"""The tree of modules: each module once, and branches below the place where they part."""

from __future__ import annotations

from fedsgt.reporting.module_tree import TreeRow, tree_rows

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
