"""Progress of a training as people see it: bars on a terminal, lines elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from fedsgt.cli.views.training import Bars, PlainLines, training_view
from fedsgt.engine.events import (
    ClientTrouble,
    ClientUpdated,
    DataChecked,
    Event,
    ModuleFinished,
    Note,
    RoundFinished,
    WorkBegun,
)

EVENTS: list[Event] = [
    DataChecked(0.5),
    DataChecked(1.0),
    WorkBegun(2, 2, 80, ((0, 1), (1, 0)), ((1, 0),)),
    ClientUpdated("a" * 64, (0,), "c0", 1, 20, 0.1),
    RoundFinished("a" * 64, (0,), 1, 0.5, 0.1),
    ClientUpdated("a" * 64, (0,), "c0", 2, 20, 0.1),
    RoundFinished("a" * 64, (0,), 2, 0.25, 0.1),
    ModuleFinished("a" * 64, (0,), "b" * 64, {"loss": 0.25}),
    ClientTrouble("c1", "said [bold]no[/bold]"),
    Note("waiting for [c1]"),
]


def test_bars_show_what_is_done_of_what() -> None:
    screen = io.StringIO()
    with Bars(Console(file=screen, force_terminal=True, width=120)) as bars:
        for event in EVENTS:
            bars(event)
        tasks = [task for task in bars.progress.tasks if task.visible]
        shown = {task.description: (task.completed, task.total) for task in tasks}
    assert shown == {"sequences": (1, 2), "phases": (1, 2), "rounds": (2, 4), "records": (40, 80)}
    assert bars.tally.modules == 1
    assert "client c1: said [bold]no[/bold]" in screen.getvalue(), "words of others are no markup"
    assert "waiting for [c1]" in screen.getvalue()


def test_bars_and_lines_say_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120, get_time=lambda: now[0])
    with Bars(console) as bars, PlainLines() as lines:
        bars.progress.live.auto_refresh = False
        for event in EVENTS[2:6]:
            now[0] += 30.0
            bars(event)
            lines(event)
        bars(EVENTS[7])
        lines(EVENTS[7])
        now[0] += 1.0
        bars.progress.refresh()
    # Rich prints lines above its bars.
    assert "module 1 of 2 (groups 0): loss 0.250, about 60 s left" in screen.getvalue()
    assert "about 59 s left" in screen.getvalue()
    assert not any(other in screen.getvalue() for other in ("-:--:--", "0:0")), "no other estimate"


def test_plain_lines_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with PlainLines() as lines:
        for event in EVENTS:
            lines(event)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[0] == "training 2 modules of 2 sequences, 2 rounds each"
    assert "  client c1: said [bold]no[/bold]" in said.err.splitlines()
    assert lines.tally.modules == 1


def test_there_are_bars_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert isinstance(training_view(), PlainLines)
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then takes any file for a terminal
    assert isinstance(training_view(), Bars)
