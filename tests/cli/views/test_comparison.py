"""The short table of a comparison, and its progress."""

from __future__ import annotations

import pytest

from fedsgt.api.comparing.progress import Advance
from fedsgt.api.results.comparison import Comparison, Point
from fedsgt.cli.views.comparison import comparison_text, comparison_view

POINTS = (
    Point("fedsgt", 0, 0, 0.9, 0.8, 1.0, 4, 1.0, 6.0),
    Point("fedsgt", 0, 1, 0.8, 0.7, 0.9, 4, 1.0, 0.0),
    Point("a label", 0, 0, 0.95, 0.8, 1.0, 4, 1.0, 10.0),
    Point("a label", 0, 1, None, None, None, 4, 1.0, 0.0),
)
FOUND = Comparison(("fedsgt", "a label"), (0,), "records", 1, 0.1, POINTS)


def test_columns_are_aligned() -> None:
    assert comparison_text(FOUND).splitlines()[:5] == [
        "accuracy in percent over 1 request (records), 1 seed",
        "",
        "system   before  after 1  mean      served  passes",
        "fedsgt     90.0     80.0  85.0  to the end     6.0",
        "a label    95.0     none  52.5      0 of 1    10.0",
    ]
    assert "±" not in comparison_text(FOUND)


def test_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with comparison_view() as view:
        view(Advance(0.2, None, "fedsgt", 0, None))
        view(Advance(0.5, 10, "fedsgt", 0, POINTS[1]))
    assert capsys.readouterr().err == "fedsgt, seed 0, after 1 request: 80.0%; about 10 s left\n"


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    with comparison_view() as view:
        view(Advance(0.5, 10, "[red]", 0, POINTS[1]))
    assert "[red], seed 0, after 1 request: 80.0%; about 10 s left" in capsys.readouterr().err
