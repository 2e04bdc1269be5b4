"""Draw the line charts of a report with matplotlib, as SVG that stands inside the page.

A chart takes the page's colours, so one drawing serves light and dark screens and paper. The same numbers
give the same bytes: nothing in a chart is random or dated.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from fedsgt.reporting.history import HistoryPoint
from fedsgt.reporting.status import RunStatus
from fedsgt.words import counted

if TYPE_CHECKING:  # matplotlib takes a second to import, and the JSON of a report needs none
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Point = tuple[float, float]
PAST_REQUESTS = 50  # a longer history is cut, so that its steps can be told apart
MOST_DOTS = 1000
MOST_LABELS = 14  # more numbers below the axis would touch
WIDTH, HEIGHT = 720, 320

# The page's style sheet has a value of each variable for light, dark and print. These are the light ones.
COLOURS = {
    "text": "#1b1f24",
    "soft": "#57606a",
    "rule": "#d4d9df",
    "live": "#1a7f4b",
    "new": "#0b62c4",
    "future": "#7b4fb5",
}
# An artist whose id begins so gets a class of that name in the page.
CLASS = "class-"
SVG, XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"


class Chart:
    """Axes to draw on, and the SVG that comes of them."""

    def __init__(self, name: str, label: str, x_label: str) -> None:
        from matplotlib.figure import Figure

        self.name, self.label = name, label
        self.figure: Figure = Figure(figsize=(WIDTH / 72, HEIGHT / 72))
        # Places are given, not computed from the sizes of texts: fonts differ between machines.
        self.axes: Axes = self.figure.add_axes((52 / WIDTH, 56 / HEIGHT, 650 / WIDTH, 246 / HEIGHT))
        self.axes.spines[:].set_visible(False)
        self.axes.tick_params(length=0, labelcolor=COLOURS["soft"], labelsize=12, pad=7)
        self.axes.grid(axis="y", color=COLOURS["rule"], linewidth=1)
        self.axes.set_axisbelow(True)
        self.axes.set_xlabel(x_label, color=COLOURS["soft"], fontsize=12, labelpad=7)
        for background in (self.figure.patch, self.axes.patch):
            background.set_visible(False)

    def line(self, points: Sequence[Point], kind: str, colour: str, **style: object) -> None:
        """Draw a line; `kind` becomes its class in the page."""
        if points:
            x, y = zip(*points, strict=True)
            self.axes.plot(x, y, color=COLOURS[colour], gid=CLASS + kind, **style)  # type: ignore[arg-type]

    def percentages(self, low: float = 0.0) -> None:
        """Let the vertical axis run from `low` to 100 %."""
        from matplotlib.ticker import FuncFormatter, LinearLocator

        self.axes.set_ylim(low, 1.0)
        self.axes.yaxis.set_major_locator(LinearLocator(5))
        self.axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.3g}%"))

    def svg(self) -> str:
        """Return the drawing as an element of an HTML page."""
        for artist in self.figure.findobj():
            # Everything lies within the axes, and the page needs no references to clip paths.
            artist.set_clip_on(False)
        file = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        with _settings(self.name):
            self.figure.savefig(file, format="svg", metadata=nothing)
        return _element(file.getvalue(), self.label)


@contextmanager
def _settings(name: str) -> Iterator[None]:
    import matplotlib

    # Texts stay texts: they are found, read aloud and drawn in the page's font. The salt gives markers the
    # same ids in every drawing of a chart, and other ids than those of the page's other charts.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": f"fedsgt {name}"}):
        yield


def _element(text: str, label: str) -> str:
    """Turn matplotlib's document into one element, without what only a file needs."""
    root = ElementTree.fromstring(text)
    _prune(root)
    used = {place.get(f"{XLINK}href") for place in root.iter(f"{SVG}use")}
    for element in root.iter():
        element.tag = element.tag.removeprefix(SVG)
        _rename(element, used)
    root.attrib = {
        "class": "chart",
        "viewBox": f"0 0 {WIDTH} {HEIGHT}",
        "role": "img",
        "aria-label": label,
    }
    return re.sub(r">\s+<", "><", ElementTree.tostring(root, encoding="unicode"))


def _prune(element: ElementTree.Element) -> None:
    """Take out metadata, the style sheet, which would apply to the whole page, and groups left empty."""
    for child in [*element]:
        _prune(child)
        kind = child.tag.rpartition("}")[2]
        if kind in ("metadata", "style") or (kind in ("g", "defs") and not len(child)):
            element.remove(child)


def _rename(element: ElementTree.Element, used: set[str | None]) -> None:
    """Drop ids that nothing refers to, which other charts have too, and put variables for colours."""
    name = element.attrib.pop("id", "")
    if name.startswith(CLASS):
        element.set("class", name.removeprefix(CLASS))
    elif f"#{name}" in used:
        element.set("id", name)
    if (target := element.attrib.pop(f"{XLINK}href", None)) is not None:
        element.set("xlink:href", target)
    if (style := element.get("style")) is not None:
        for variable, colour in COLOURS.items():
            style = style.replace(colour, f"var(--{variable})")
        # The page says which font its texts have.
        element.set("style", re.sub(r"font[\w-]*:[^;]*;?\s*", "", style).strip())


def draw_unlearning_curve(status: RunStatus) -> str:
    """Draw what was live after each request and what to expect after further ones, as shares of the plan."""
    served = len(status.past.requests)
    further = 0 if status.exhausted else len(status.forecast.alive) - 1
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
        alive = [(now + count, float(value)) for count, value in enumerate(ahead.alive)]
        chart.line(left, "groups ahead", "live", **dashed)
        chart.line(alive, "alive ahead", "future", **dashed)
    return chart.svg()


def _curve_label(status: RunStatus) -> str:
    ahead = status.forecast.alive
    chance = f"; chance to serve after {len(ahead) - 1} more: {float(ahead[-1]):.1%}"
    return (
        f"Unlearning curve: {status.live_counts.modules} of {status.modules} modules live after "
        f"{counted(len(status.past.requests), 'request')}" + ("" if status.exhausted else chance)
    )


def _place(point: HistoryPoint) -> float:
    """Return the place of a point: a training is halfway between the requests before and after it."""
    return point.requests + (0.5 if point.trained and point.requests else 0.0)


def _known(places: Sequence[float], values: Sequence[int | None], whole: int) -> list[Point]:
    """Return the shares that are known; before the last training the ledger does not count groups."""
    pairs = zip(places, values, strict=True)
    return [(place, value / whole) for place, value in pairs if value is not None]


def _count_requests(axes: Axes, past: range, now: float, further: int) -> None:
    """Number the requests so far, and those to come with a plus, at most as many as there is room for."""
    step = max(1, math.ceil((len(past) + further) / MOST_LABELS))
    labels = {float(count): str(count) for count in past[::step] if now - count >= step * 0.7}
    labels[now] = "now"
    labels |= {now + count: f"+{count}" for count in range(step, further + 1, step)}
    axes.set_xticks(list(labels), list(labels.values()))


def draw_accuracy_curves(sequences: Sequence[Sequence[float]]) -> str:
    """Draw the accuracy of each sequence over the number of its modules."""
    values = [value for curve in sequences for value in curve]
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
