"""The score of a plan on one screen: rows, bars and notes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command import shown

QUICK = ("--clients", "4", "--slices", "3", "--groups", "3", "--requests", "6")


@pytest.mark.parametrize("requests", [0, 1, 7, 17, 30])
def test_the_last_request_has_its_row(requests: int) -> None:
    lines = shown("plan", "--requests", str(requests)).splitlines()
    assert any(line.split()[:1] == [str(requests)] for line in lines)


def test_where_blocks_cannot_be_shown_there_are_other_bars() -> None:
    command, plain = Path(sys.executable).parent / "fedsgt", {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([command, "plan", *QUICK], capture_output=True, text=True, check=True, env=plain)
    assert "####" in done.stdout


def test_a_narrow_screen_keeps_a_row_on_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    rows = [line for line in shown("plan", *QUICK).splitlines() if line.endswith("%")]
    assert len(rows) == 7
    assert all(line.count("%") == 2 for line in rows)


def test_more_rotations_than_groups_are_noted() -> None:
    assert "repeat" in shown("plan", *QUICK, "--budget", "5")


def test_data_driven_groupings_are_planned_as_random_and_say_so() -> None:
    assert "needs the data" in shown("plan", *QUICK, "--grouping", "centered")
