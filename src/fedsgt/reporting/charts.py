"""The line charts of a report: what was live, what to expect, accuracies, and times of training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fedsgt.reporting.history import HistoryPoint
from fedsgt.reporting.status import RunStatus
from fedsgt.reporting.svg_chart import Chart, Point
from fedsgt.serving.accuracy import Evaluation
from fedsgt.words import counted

if TYPE_CHECKING:  # matplotlib takes a second to import, and the JSON of a report needs none
    from matplotlib.axes import Axes

PAST_REQUESTS = 50  # a longer history is cut, so that its steps can be told apart
PAST_EVENTS = 500  # most requests and trainings over time, which bounds the size of the page
MOST_DOTS = 1000
MOST_LABELS = 14  # more numbers below the axis would touch
MOST_TIMES = 7  # times take more room than numbers
MINUTE, HOUR, DAY = 60, 3600, 86_400
TIME_STEPS = (
    *(1, 5, 15, 30),
    *(MINUTE * count for count in (1, 5, 15, 30)),
    *(HOUR * count for count in (1, 3, 6, 12)),
    *(DAY * count for count in (1, 7, 30, 90, 365)),
)


def draw_unlearning_curve(status: RunStatus) -> str:
    """Draw what was live after each request and what to expect after further ones, as shares of the plan."""
    served = len(status.past.requests)
    further = len(status.forecast.alive) - 1 if status.live_counts.modules else 0
    first = max(0, served - PAST_REQUESTS)
    # The last point is the present, which is no event.
    *events, _ = points = [point for point in status.past.steps if point.requests >= first]
    now = max(map(_place, events), default=float(served))
    places = [*map(_place, events), now]
    chart = Chart("unlearning", _curve_label(status), "deletion requests")
    chart.percentages()
    chart.axes.set_xlim(first, max(now + further, first + 1))
    _count_requests(chart.axes, range(first, served + 1), now, further)
    chart.line([(now, 0.0), (now, 1.0)], "now", "text", linewidth=1, linestyle=(0, (2, 3)))
    # Triangles stand a little above the axis, so that they do not cover its numbers.
    trained = [(_place(point), 0.02) for point in events if point.trained and point.requests]
    chart.line(trained, "trained", "new", linestyle="none", marker="^", markersize=9)
    modules = [point.live_counts.modules for point in points]
    groups = [point.live_counts.groups for point in points]
    stairs = {"linewidth": 2.2, "drawstyle": "steps-post"}
    chart.line(_known(places, modules, status.modules), "modules", "soft", **stairs)
    chart.line(_known(places, groups, status.groups), "groups", "live", **stairs)
    if further:
        dashed = {"linewidth": 2.2, "linestyle": (0, (3, 2))}
        ahead = status.forecast
        left = [(now + count, value / status.groups) for count, value in enumerate(ahead.live_groups)]
        alive = [(now + count, float(value)) for count, value in enumerate(ahead.some_module)]
        chart.line(left, "groups ahead", "live", **dashed)
        chart.line(alive, "alive ahead", "future", **dashed)
    return chart.svg()


def _curve_label(status: RunStatus) -> str:
    ahead = status.forecast.some_module
    what = "of a live module" if status.solved else "to serve"
    chance = f"; chance {what} after {len(ahead) - 1} more: {float(ahead[-1]):.1%}"
    return (
        f"Unlearning curve: {status.live_counts.modules} of {counted(status.modules, 'module')} live after "
        f"{counted(len(status.past.requests), 'request')}" + (chance if status.live_counts.modules else "")
    )


def _place(point: HistoryPoint) -> float:
    """Return the place of a point: a training is halfway between the requests before and after it."""
    return point.requests + (0.5 if point.trained and point.requests else 0.0)


def _known(places: Sequence[float], values: Sequence[int | None], whole: int) -> list[Point]:
    """Return the shares that are known; before the last training the ledger does not count groups."""
    pairs = zip(places, values, strict=True)
    return [(place, value / max(1, whole)) for place, value in pairs if value is not None]


def _count_requests(axes: Axes, past: range, now: float, further: int) -> None:
    """Number the requests so far, and those to come with a plus, at most as many as there is room for."""
    step = max(1, math.ceil((len(past) + further) / MOST_LABELS))
    labels = {float(count): str(count) for count in past[::step] if now - count >= step * 0.7}
    labels[now] = "now"
    labels |= {now + count: f"+{count}" for count in range(step, further + 1, step)}
    axes.set_xticks(list(labels), list(labels.values()))


def draw_timeline(status: RunStatus, until: datetime) -> str:
    """Draw what was live over real time, up to now, with the requests and trainings that changed it."""
    *events, present = status.past.steps
    events = events[-PAST_EVENTS:]
    times = [_date(point) for point in events]
    now = max([until.timestamp(), *times])
    start, places = min([now, *times]), [*times, now]
    chart = Chart("timeline", _timeline_label(status, start, now), f"time (UTC), {_span(start, now)}")
    chart.percentages()
    # A run of this moment gets an axis, too, and marks at the ends stay off the numbers beside it.
    end = max(now, start + 60)
    chart.axes.set_xlim(start - 0.02 * (end - start), end)
    ticks = _time_ticks(start, end)
    chart.axes.set_xticks(list(ticks), list(ticks.values()))
    points = [*events, present]
    stairs = {"linewidth": 2.2, "drawstyle": "steps-post"}
    modules = _known(places, [point.live_counts.modules for point in points], status.modules)
    groups = _known(places, [point.live_counts.groups for point in points], status.groups)
    chart.line(modules, "modules", "soft", **stairs)
    chart.line(groups, "groups", "live", **stairs)
    trained = [(_date(point), 0.02) for point in events if point.trained and point.requests]
    chart.line(trained, "trained", "new", linestyle="none", marker="^", markersize=9)
    asked = [(_date(point), 0.0) for point in events if not point.trained]
    chart.line(asked, "request", "text", linestyle="none", marker="|", markersize=13, markeredgewidth=1.6)
    return chart.svg()


def _date(point: HistoryPoint) -> float:
    assert point.time is not None  # only the present has none
    return datetime.fromisoformat(point.time).timestamp()


def _timeline_label(status: RunStatus, start: float, now: float) -> str:
    served = counted(len(status.past.requests), "request")
    return f"Live modules and groups over time, {_span(start, now)}: {served}"


def _span(start: float, end: float) -> str:
    """Return the days from start to end."""
    first, last = (f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d}" for moment in (start, end))
    return first if first == last else f"{first} to {last}"


def _time_ticks(start: float, end: float) -> dict[float, str]:
    """Return round moments between start and end, at most `MOST_TIMES`, each with its name."""
    step = next(
        (step for step in TIME_STEPS if (end - start) / step < MOST_TIMES), (end - start) / MOST_TIMES
    )
    form = "%H:%M:%S" if step < MINUTE else "%H:%M" if step < DAY else "%Y-%m-%d"
    if step < DAY and _span(start, end) != _span(start, start):  # the hour alone would not tell the day
        form = "%m-%d %H:%M"
    places = (step * count for count in range(math.ceil(start / step), math.floor(end / step) + 1))
    return {place: f"{datetime.fromtimestamp(place, UTC):{form}}" for place in places}


def draw_expected_accuracy(found: Evaluation, labels: int) -> str:
    """Draw the accuracy to expect after further requests, if something is live, and the chance of that."""
    assert found.expected_strategy is not None
    now, last = found.strategies[found.expected_strategy], found.expected[-1]
    told = "not known" if last.accuracy is None else f"{last.accuracy:.1%}"
    certain = found.floor is not None and last.alive == 1
    label = (
        f"Accuracy now {now.accuracy:.1%}; expected after {counted(last.requests, 'further request')}: {told}"
        + ("" if certain else f" if something is live, which has a chance of {last.alive:.1%}")
    )
    chart = Chart("expected", label, "further deletion requests")
    chart.percentages()
    chart.axes.set_xlim(-0.1, last.requests)
    chart.axes.set_xticks(range(last.requests + 1), ["now", *(f"+{one.requests}" for one in found.expected)])
    chart.line(
        [(0.0, 1 / labels), (float(last.requests), 1 / labels)],
        "guess",
        "soft",
        linewidth=1,
        linestyle=(0, (2, 3)),
    )
    alive = [(0.0, 1.0), *((float(one.requests), one.alive) for one in found.expected)]
    if not certain:
        chart.line(alive, "alive ahead", "future", linewidth=2.2, linestyle=(0, (3, 2)))
    expected = [(float(one.requests), one.accuracy) for one in found.expected if one.accuracy is not None]
    line = {"linewidth": 2.2, "marker": "o", "markersize": 5}
    chart.line([(0.0, now.accuracy), *expected], "accuracies", "new", **line)
    chart.line([(0.0, now.low), (0.0, now.high)], "interval", "new", linewidth=5, alpha=0.4)
    return chart.svg()


def draw_accuracy_curves(sequences: Sequence[Sequence[float]], floor: float | None = None) -> str:
    """Draw the accuracy of each sequence over the number of its modules, and that of the bare backbone."""
    values = [*(value for curve in sequences for value in curve), *([] if floor is None else [floor])]
    longest = max(map(len, sequences))
    label = (
        f"Accuracy of {counted(len(sequences), 'sequence')} over the number of modules: "
        f"{min(values):.1%} to {max(values):.1%}"
    )
    chart = Chart("accuracy", label, "modules of the sequence")
    chart.percentages(min(0.9, math.floor(10 * min(values)) / 10))
    chart.axes.set_xlim(0.9, max(2, longest) + 0.1)  # dots at the ends are whole
    chart.axes.set_xticks(range(1, longest + 1, max(1, math.ceil(longest / MOST_LABELS))))
    for curve in sequences:
        points = [(float(depth), value) for depth, value in enumerate(curve, start=1)]
        chart.line(points, "curve", "soft", linewidth=1.4, marker="o", markersize=5, alpha=0.7)
    if floor is not None:
        ends = [(0.9, floor), (max(2, longest) + 0.1, floor)]
        chart.line(ends, "floor", "future", linewidth=2.2, linestyle=(0, (1, 2)))
    return chart.svg()


def draw_seconds_over_records(points: Sequence[Point], line: Point | None) -> tuple[str, int]:
    """Draw modules as dots and a line given by its start and slope; return also how many dots are drawn."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    # Every n-th module, spread over the whole plan.
    drawn = points[:: math.ceil(len(points) / MOST_DOTS)]
    most = max(x for x, _ in points)
    ends = [] if line is None else _within(line, most)
    label = f"Seconds of training over records, for {counted(len(drawn), 'module')}"
    chart = Chart("seconds", label, "records trained on, all rounds")
    chart.axes.set_xlim(0, most * 1.05 or 1.0)
    chart.axes.set_ylim(0, max(y for _, y in [*points, *ends]) * 1.05 or 1.0)
    for axis in (chart.axes.xaxis, chart.axes.yaxis):
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axis.set_major_formatter(StrMethodFormatter("{x:,.6g}"))
    chart.line(drawn, "dots", "soft", linestyle="none", marker="o", markersize=6, alpha=0.8)
    chart.line(ends, "fit", "live", linewidth=2.2)
    return chart.svg(), len(drawn)


def _within(line: Point, most: float) -> list[Point]:
    """Return the ends of the line, from zero records or zero seconds on: no time is negative."""
    start, slope = line
    first = -start / slope if start < 0 < slope else 0.0
    return [(x, start + slope * x) for x in (first, most)]
