"""Counts and lines of text of a training, from its events."""

from __future__ import annotations

import pytest

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
from fedsgt.engine.tally import Tally, print_lines, share_of

WORK = WorkBegun(2, 2, 80, ((0, 1), (1, 0)), ((1, 0),))


def updated(records: int) -> ClientUpdated:
    return ClientUpdated("a" * 64, (0,), "c0", 1, records, 0.5)


def finished(*groups: int) -> ModuleFinished:
    return ModuleFinished("a" * 64, groups, "b" * 64, {"loss": 0.25})


def test_what_is_done_is_counted() -> None:
    tally = Tally()
    for event in (WORK, updated(10), updated(30), finished(0), finished(0, 1)):
        tally(event)
    assert (tally.modules, tally.records) == (2, 40)
    assert tally.finished == {(1, 0), (0, 1)}, "a module that ends no sequence finishes none"


def test_long_checks_have_lines_after_each_quarter(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    lines: list[str] = []
    listen = print_lines(Tally(), lines.append)
    for percent in range(1, 101):
        now[0] += 0.5
        listen(DataChecked(percent / 100))
    assert lines == [
        "checking records: 25%, about 38 s left",
        "checking records: 50%, about 25 s left",
        "checking records: 75%, about 12 s left",
    ]
    lines.clear()
    listen = print_lines(Tally(), lines.append)
    for percent in range(1, 101):
        now[0] += 0.05
        listen(DataChecked(percent / 100))
    assert lines == []


def test_lines() -> None:
    lines: list[str] = []
    listen = print_lines(Tally(), lines.append)
    events: list[Event] = [
        DataChecked(1.0),
        WORK,
        updated(80),
        RoundFinished("a" * 64, (0,), 1, 0.5, 0.1),
        RoundFinished("a" * 64, (0,), 2, 0.25, 0.1),
        finished(0),
        ClientTrouble("c1", "went away"),
        Note("waiting"),
    ]
    for event in events:
        listen(event)
    assert lines == [
        "training 2 modules of 2 sequences, 2 rounds each",
        "  round 1 of groups 0: loss 0.500",
        "module 1 of 2 (groups 0): loss 0.250, about 0 s left",
        "  client c1: went away",
        "  waiting",
    ]
    tally = Tally()
    tally(WORK)
    told: list[Event] = [
        RoundFinished("a" * 64, (0,), 1, None, 0.1),
        ModuleFinished("a" * 64, (0,), "b" * 64, {}),
    ]
    assert [tally.line(event) for event in told] == [  # by another process, which leaves losses out
        "  round 1 of groups 0: done",
        "module 0 of 2 (groups 0): done",
    ]
    assert Tally().line(WorkBegun(0, 1, 0, ((0,),), ((0,),))) is None, "nothing to train, nothing to say"


def test_share_of_records() -> None:
    shares: list[float] = []
    listen = share_of(40, shares.append)
    for event in (WORK, updated(10), finished(0), updated(30)):
        listen(event)
    assert shares == [0.25, 1.0]
