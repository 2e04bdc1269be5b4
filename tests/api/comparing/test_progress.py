"""Time left of a comparison: by records for training, by number for deletions."""

from __future__ import annotations

from typing import Any

import pytest

from fedsgt.api.comparing import progress
from fedsgt.api.comparing.progress import Advance, Meter, SystemWork, comparison_listener, share_told
from fedsgt.api.results.comparison import Point
from fedsgt.config import load, system_settings
from fedsgt.engine.events import ClientUpdated, WorkBegun


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("fedsgt.api.comparing.progress.time.monotonic", lambda: self.now)


def work_of(*overrides: str, system: str | None = None) -> SystemWork:
    return SystemWork.of(load(None, [*system_settings(system), *overrides]), 1000, 0)


def test_work_is_counted_in_records() -> None:
    # Ten rotations of ten groups are 55 passes, of three epochs each.
    assert work_of().training == pytest.approx(55 * 3 * 1000)
    assert work_of().retraining == 0
    assert work_of("training.window=1").training == pytest.approx(10 * 3 * 1000)
    fedavg, again = (work_of(system=name) for name in ("fedavg", "fedretrain"))
    assert fedavg.training == again.training == pytest.approx(10 * 3 * 1000)
    assert again.retraining == pytest.approx(again.training)
    clusters = work_of(system="fedcio-retrain")
    assert clusters.training == pytest.approx(11 * 3 * 1000)  # with the first updates, by which they are made
    assert clusters.retraining == pytest.approx(clusters.training / 5)


def test_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, told = Clock(monkeypatch), list[Advance]()
    systems = {"a": SystemWork(100, 0), "b": SystemWork(300, 0)}
    meter = Meter.of(systems, [5], told.append)
    assert (meter.work, meter.steps) == (400, 10)
    meter.place = "a", 0
    with meter.training("a") as advance:
        clock.now = 50  # for loading
        advance(0.0)
        clock.now = 60
        advance(0.5)
        assert told[-1].seconds_left == pytest.approx(350 / 5 + 10 * progress.STEP)
        clock.now = 70
    for _ in range(5):
        with meter.step():
            clock.now += 2
    meter.found(Point("a", 0, 5, 0.5, 0.4, 0.6, 1, 2.0, 0.0))
    assert told[-1].seconds_left == pytest.approx(300 / 5 + 5 * 2)
    assert told[-1].share == pytest.approx(0.9 * 100 / 400 + 0.1 * 5 / 10)


def test_work_of_an_earlier_call_counts_as_done(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch)
    told = list[Advance]()
    meter = Meter.of({"a": SystemWork(100, 10)}, [5], told.append)
    meter.skip("a", 5)
    meter.found(Point("a", 0, 5, 0.5, 0.4, 0.6, 1, 2.0, 0.0))
    assert told[-1].share == pytest.approx(1)


def test_systems_that_train_nothing_have_their_deletions_as_all_work() -> None:
    told = list[Advance]()
    meter = Meter.of({"ridge": SystemWork(0, 0)}, [2], told.append)
    with meter.training("ridge") as advance:
        advance(0.0)
    for _ in range(2):
        with meter.step():
            pass
        meter.found(Point("ridge", 0, 1, 0.5, 0.4, 0.6, 1, 2.0, 0.0))
    assert [one.share for one in told[-2:]] == [0.5, 1.0]


def test_a_training_inside_a_step_counts_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    meter = Meter.of({"a": SystemWork(100, 50)}, [2], lambda advance: None)
    with meter.step(), meter.retraining("a") as advance:
        advance(0.0)
        clock.now = 10
    assert meter.timed == (50, 10)
    assert meter.timed_steps == (1, 0)


def test_shares_of_a_training() -> None:
    told: list[float] = []
    listen = share_told(told.append, 0.5)
    listen(WorkBegun(1, 1, 40, (), ()))
    listen(ClientUpdated("k", (0,), "a", 1, 10, 0.1))
    listen(ClientUpdated("k", (0,), "b", 1, 30, 0.1))
    assert told == [0.0, 0.125, 0.5]


@pytest.mark.parametrize(("seconds", "words"), [(12, "12 s"), (600, "10 min"), (9000, "2.5 h")])
def test_words(seconds: float, words: str) -> None:
    point = Point("a", 1, 1, None, None, None, 0, 2.0, 0.0)
    assert Advance(0.5, seconds, "a", 1, point).text() == (
        f"a, seed 1, after 1 request: nothing is served; about {words} left"
    )
    assert Advance(0.0, None, "a", 1, None).text() == "a, seed 1"


def test_who_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    advance = Advance(0.5, 3, "a", 1, Point("a", 1, 0, 0.5, 0.4, 0.6, 1, 2.0, 0.0))
    told: list[Any] = []
    comparison_listener(told.append)(advance)
    assert told == [advance]
    comparison_listener(False)(advance)
    comparison_listener(None)(advance)  # nobody looks at the tests' standard error
    assert capsys.readouterr().err == ""
    comparison_listener(True)(advance)
    assert capsys.readouterr().err == "a, seed 1, after 0 requests: 50.0%; about 3 s left\n"
