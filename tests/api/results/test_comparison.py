"""A comparison's numbers: frame, summary, short table and JSON say the same."""

from __future__ import annotations

import json
import math

import pytest

from fedsgt.api.results.comparison import COLUMNS, Comparison, Mean, Point


def point(system: str, seed: int, request: int, accuracy: float | None, passes: float = 0.0) -> Point:
    low, high = (None, None) if accuracy is None else (accuracy - 0.1, accuracy + 0.1)
    return Point(system, seed, request, accuracy, low, high, 3, 1.0, passes, (1,))


FOUND = Comparison(
    systems=("ours", "theirs"),
    seeds=(0, 1),
    stream="slices",
    requests=2,
    chance=0.25,
    points=(
        point("ours", 0, 0, 0.9, 6),
        point("ours", 0, 1, 0.8),
        point("ours", 0, 2, 0.7),
        point("ours", 1, 0, 0.8, 6),
        point("ours", 1, 1, 0.7),
        point("ours", 1, 2, None),
        point("theirs", 0, 0, 0.9, 10),
        point("theirs", 0, 1, None),
        point("theirs", 0, 2, None),
        point("theirs", 1, 0, 0.7, 10),
        point("theirs", 1, 1, None),
        point("theirs", 1, 2, None),
    ),
)


def test_the_frame_has_a_row_for_each_point() -> None:
    frame = FOUND.frame
    assert tuple(frame.columns) == COLUMNS
    assert len(frame) == 12
    assert frame.accuracy.dtype == float
    assert list(frame.accuracy.isna()) == [not served for served in frame.served]
    assert list(frame.accuracy_or_chance[~frame.served]) == [0.25] * 5


def test_the_summary_has_means_of_what_is_served() -> None:
    table = FOUND.summary().set_index(["system", "request"])
    assert table.accuracy["ours", 0] == pytest.approx(0.85)
    # Student's t of two values: the half width is 12.7062 times the standard error, 0.05.
    assert table.low["ours", 0] == pytest.approx(0.85 - 12.7062 * 0.05, rel=1e-4)
    assert table.high["ours", 0] == 1  # no accuracy is higher
    assert table.served["ours", 2] == 0.5
    assert table.accuracy["ours", 2] == pytest.approx(0.7)
    assert math.isnan(table.low["ours", 2])
    assert table.accuracy_or_chance["ours", 2] == pytest.approx((0.7 + 0.25) / 2)
    assert math.isnan(table.accuracy["theirs", 1])


def test_the_short_table() -> None:
    headers, rows = FOUND.overview()
    assert headers == ["system", "before", "after 1", "after 2", "mean", "served", "passes"]
    assert rows[0][0] == "ours"
    assert rows[0][1].startswith("85.0 ± 63.5")
    assert rows[0][3:] == ["70.0 (1 of 2)", rows[0][4], "1.5 of 2", "6.0"]
    assert rows[1][2:4] == ["none", "none"]
    assert rows[1][5] == "0 of 2"
    assert FOUND.mean_accuracy("theirs").value == pytest.approx((0.9 + 0.7 + 4 * 0.25) / 6)


def test_it_prints_well_and_turns_into_json() -> None:
    assert repr(FOUND).startswith("<Comparison over 2 requests (slices), 2 seeds: mean accuracy ours 69.2 ±")
    assert FOUND._repr_html_().count("<tr>") == 3
    values = json.loads(json.dumps(FOUND.to_json(), allow_nan=False))
    assert values["points"][5]["accuracy"] is None
    assert values["points"][5]["accuracy_or_chance"] == 0.25
    assert values["chance"] == 0.25
    assert [Point.from_json(one.to_json()) for one in FOUND.points] == list(FOUND.points)


def test_means_of_few_values() -> None:
    assert Mean.of([0.5]).percent() == "50.0"
    assert math.isnan(Mean.of([]).value)
    assert Mean.of([0.5, 0.5, 0.5]).half == 0
