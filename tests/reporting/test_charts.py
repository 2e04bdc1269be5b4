"""The charts of a report: the same bytes every time, readable without the page, and true to their numbers."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import groupby, pairwise
from pathlib import Path
from xml.etree import ElementTree

from paper_run import delete, describe, fill, paper_run, rebuild

from fedsgt.plans import rotations
from fedsgt.reporting.charts import (
    draw_accuracy_curves,
    draw_expected_accuracy,
    draw_seconds_over_records,
    draw_timeline,
    draw_unlearning_curve,
)
from fedsgt.reporting.status import RunStatus, run_status
from fedsgt.reporting.svg_chart import COLOURS
from fedsgt.serving.accuracy import Accuracy, Evaluation, ExpectedAccuracy

EXPECTED = Evaluation(
    3,
    100,
    [],
    {"long": Accuracy(0.75, 0.5, 0.875)},
    expected_strategy="long",
    expected=[ExpectedAccuracy(1, 0.5, 0.0, 1.0), ExpectedAccuracy(2, None, 0.0, 0.25)],
)
NOON = datetime(2031, 5, 6, 12, tzinfo=UTC)
CURVES = [[0.5, 0.75, 0.875], [0.625]]
BOTTOM = 264.0  # where the horizontal axis is


def status(path: Path) -> RunStatus:
    """A run of six groups that was trained again after two requests, and had a third."""
    folder = paper_run(path, describe(rotations(6).sequences, [5] * 6))
    fill(folder)
    delete(folder, 2)
    delete(folder, 0)
    rebuild(folder)
    delete(folder, 1)
    return run_status(folder)


def element(svg: str, kind: str) -> ElementTree.Element:
    """Return the one group of the class."""
    (found,) = ElementTree.fromstring(svg.replace("xlink:", "")).findall(f".//g[@class='{kind}']")
    return found


def places(svg: str, kind: str) -> list[tuple[float, float]]:
    """Return the corners of the line of the class, in the drawing's own coordinates."""
    path = element(svg, kind).find("path")
    assert path is not None
    return [(float(x), float(y)) for x, y in re.findall(r"[ML] ([\d.-]+) ([\d.-]+)", path.get("d", ""))]


def texts(svg: str) -> list[str]:
    return [text.text or "" for text in ElementTree.fromstring(svg.replace("xlink:", "")).iter("text")]


def test_a_chart_is_drawn_with_the_same_bytes_every_time(tmp_path: Path) -> None:
    found = status(tmp_path / "run")
    assert draw_unlearning_curve(found) == draw_unlearning_curve(found)
    assert draw_accuracy_curves(CURVES) == draw_accuracy_curves(CURVES)
    assert draw_timeline(found, NOON) == draw_timeline(found, NOON)
    assert draw_expected_accuracy(EXPECTED, 4) == draw_expected_accuracy(EXPECTED, 4)
    assert draw_seconds_over_records([(1.0, 2.0)], None) == draw_seconds_over_records([(1.0, 2.0)], None)


def test_a_chart_has_the_pages_colours_and_font_and_says_what_it_shows(tmp_path: Path) -> None:
    for svg in (
        draw_unlearning_curve(status(tmp_path / "run")),
        draw_accuracy_curves(CURVES),
        draw_timeline(status(tmp_path / "other"), NOON),
        draw_expected_accuracy(EXPECTED, 4),
        draw_seconds_over_records([(1.0, 2.0), (3.0, 4.0)], (1.0, 1.0))[0],
    ):
        root = ElementTree.fromstring(svg.replace("xlink:", ""))
        assert root.attrib.keys() == {"class", "viewBox", "role", "aria-label"}
        assert root.get("role") == "img"
        assert not any(colour in svg for colour in COLOURS.values())
        assert set(re.findall(r"(?:fill|stroke): ([^;\"]+)", svg)) <= {
            "none",
            *(f"var(--{name})" for name in COLOURS),
        }
        assert not re.search(r"<style|font|clip-path|metadata|xmlns|#[0-9a-f]{6}\b", svg)


def test_charts_of_one_page_share_no_id() -> None:
    dots, curves = draw_seconds_over_records([(1.0, 2.0)], None)[0], draw_accuracy_curves(CURVES)
    ids = [set(re.findall(r' id="([^"]+)"', svg)) for svg in (dots, curves)]
    assert all(ids)
    assert not ids[0] & ids[1]


def test_what_was_live_falls_in_steps_and_trainings_stand_between_requests(tmp_path: Path) -> None:
    svg = draw_unlearning_curve(status(tmp_path / "run"))
    modules = [round((BOTTOM - y) / 246 * 36) for _, y in places(svg, "modules")]
    # One of six groups leaves 15 of the 36 modules; two that are next but one to each other leave 6 + 1.
    assert [height for height, _ in groupby(modules)] == [36, 15, 7, 36, 15]
    corners = places(svg, "modules")
    assert all(a[0] == b[0] or a[1] == b[1] for a, b in pairwise(corners))
    assert len(element(svg, "trained").findall(".//use")) == 1
    assert [text for text in texts(svg) if text != "deletion requests" and "%" not in text] == [
        *("0", "1", "2", "now"),
        *(f"+{count}" for count in range(1, 11)),
    ]


def test_an_exhausted_run_has_no_forecast(tmp_path: Path) -> None:
    folder = paper_run(tmp_path / "run", describe([(0, 1)], [5, 5]))
    fill(folder)
    delete(folder, 0, 1)
    svg = draw_unlearning_curve(run_status(folder))
    assert "ahead" not in svg
    assert "0 of 2 modules live after 1 request" in svg


def timed(found: RunStatus, *times: datetime) -> RunStatus:
    """Return the status with other times of its events; the last step is the present."""
    *events, present = found.past.steps
    moved = [replace(one, time=time.isoformat()) for one, time in zip(events, times, strict=True)]
    return replace(found, past=replace(found.past, steps=[*moved, present]))


def test_what_was_live_stands_over_the_time_of_each_request(tmp_path: Path) -> None:
    # Trained, two requests, trained again, a third request, and now: at 0, 1, 2, 5, 7 and 10 hours.
    hours = [NOON + timedelta(hours=count) for count in (0, 1, 2, 5, 7)]
    found = timed(status(tmp_path / "run"), *hours)
    svg = draw_timeline(found, NOON + timedelta(hours=10))
    corners = places(svg, "modules")
    # The axis is 650 wide and begins 2 % of the time before the training.
    at = sorted({round((x - 52) / 650 * 10.2 - 0.2, 2) for x, _ in corners})
    assert at == [0, 1, 2, 5, 7, 10]
    heights = [round((BOTTOM - y) / 246 * 36) for _, y in corners]
    assert [height for height, _ in groupby(heights)] == [36, 15, 7, 36, 15]
    assert len(element(svg, "request").findall(".//use")) == 3
    assert len(element(svg, "trained").findall(".//use")) == 1
    assert [text for text in texts(svg) if ":" in text] == ["12:00", "15:00", "18:00", "21:00"]
    assert "time (UTC), 2031-05-06" in texts(svg)


def test_times_are_named_as_closely_as_they_lie(tmp_path: Path) -> None:
    found = status(tmp_path / "run")

    def ticks(span: timedelta) -> list[str]:
        svg = draw_timeline(timed(found, *[NOON] * 5), NOON + span)
        return [text for text in texts(svg) if "%" not in text and "time" not in text]

    quarters = (15 * count for count in range(7))
    assert ticks(timedelta(seconds=90)) == [f"12:{at // 60:02d}:{at % 60:02d}" for at in quarters]
    days = ["05-06 12:00", "05-07 00:00", "05-07 12:00", "05-08 00:00", "05-08 12:00"]
    assert ticks(timedelta(days=2)) == days
    assert ticks(timedelta(days=300)) == ["2031-05-11", "2031-08-09", "2031-11-07", "2032-02-05"]
    assert len(ticks(timedelta(days=10_000))) <= 7
    assert ticks(timedelta(0)) == ["12:00:00", "12:00:15", "12:00:30", "12:00:45", "12:01:00"]
    # The clock of this machine may be behind the ledger's.
    assert ticks(timedelta(hours=-3)) == ticks(timedelta(0))


def test_expected_accuracy_stands_beside_the_chance_of_it() -> None:
    svg = draw_expected_accuracy(EXPECTED, 4)
    expected = [round((BOTTOM - y) / 246, 3) for _, y in places(svg, "accuracies")]
    assert expected == [0.75, 0.5], "now, and after one request; nothing is known after two"
    alive = [round((BOTTOM - y) / 246, 3) for _, y in places(svg, "alive ahead")]
    assert alive == [1.0, 1.0, 0.25]
    assert [round((BOTTOM - y) / 246, 3) for _, y in places(svg, "interval")] == [0.5, 0.875]
    assert {round((BOTTOM - y) / 246, 3) for _, y in places(svg, "guess")} == {0.25}
    assert {"now", "+1", "+2"} <= set(texts(svg))
    assert "Accuracy now 75.0%; expected after 2 further requests: not known if something is live" in svg


def test_a_curve_for_each_sequence_and_a_dot_for_each_module() -> None:
    svg = draw_accuracy_curves(CURVES)
    assert svg.count('class="curve"') == 2
    assert svg.count("<use") == 4
    assert {"50%", "100%", "1", "2", "3"} <= set(texts(svg))


def test_many_modules_are_drawn_as_some_of_them_and_the_line_stays_inside() -> None:
    points = [(float(n), max(0.0, n - 500.0)) for n in range(1, 2501)]
    svg, drawn = draw_seconds_over_records(points, (-500, 1))
    assert drawn == 834
    assert svg.count("<use") == drawn
    # No time is below zero: the line begins where it crosses the axis, at 500 of the 2,625 that are drawn.
    (left, bottom), (_, top) = places(svg, "fit")
    assert abs(left - (52 + 650 * 500 / 2625)) < 0.1
    assert abs(bottom - BOTTOM) < 0.1
    assert top < bottom
