"""Progress of long work: few lines into a file, and a bar on a terminal."""

from __future__ import annotations

import pytest

from fedsgt.cli.views.progress import left_text, progress
from fedsgt.engine.time_left import Countdown


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


def test_a_file_gets_a_line_for_each_quarter(capsys: pytest.CaptureFixture[str], clock: list[float]) -> None:
    with progress("Reading") as done:
        for share in range(101):
            clock[0] += 1.0
            done(share / 100)
    said = capsys.readouterr()
    assert said.out == "", "standard output is for results"
    assert said.err.splitlines() == [
        "Reading: 0%",
        "Reading: 25%, about 75 s left",
        "Reading: 50%, about 50 s left",
        "Reading: 75%, about 25 s left",
        "Reading: 100%",
    ]


def test_quarters_that_were_jumped_over_are_not_told_later(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("Reading") as done:
        for share in (0.0, 0.9, 0.9, 0.3, 1.0):
            done(share)
    assert capsys.readouterr().err.splitlines() == ["Reading: 0%", "Reading: 90%", "Reading: 100%"]


def test_a_terminal_gets_a_bar_that_goes_away(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then takes any file for a terminal
    monkeypatch.setenv("TERM", "xterm")
    with progress("Reading") as done:
        done(0.5)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "\x1b[" in shown.err
    assert "Reading: 0%" not in shown.err


def test_a_bar_shows_the_time_left(clock: list[float]) -> None:
    left = Countdown()
    assert left_text(None) == left_text(left) == ""
    left.set(100.0)
    assert left_text(left) == "about 2 min left"
    clock[0] = 55.0
    assert left_text(left) == "about 45 s left"
