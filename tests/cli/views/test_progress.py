"""Progress of long work: few lines into a file, and a bar on a terminal."""

from __future__ import annotations

import pytest

from fedsgt.cli.views.progress import progress


def test_a_file_gets_a_line_for_each_quarter(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("Reading") as done:
        for share in range(101):
            done(share / 100)
    said = capsys.readouterr()
    assert said.out == "", "standard output is for results"
    assert said.err.splitlines() == [f"Reading: {share}%" for share in (0, 25, 50, 75, 100)]


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
