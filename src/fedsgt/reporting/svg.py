"""The drawings of a report: the tree of modules, the unlearning curve, accuracies; colours are the page's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fedsgt.plans.plan import Prefix
from fedsgt.reporting.history import HistoryPoint
from fedsgt.reporting.status import RunStatus
from fedsgt.reporting.tree_rows import Row, rows

Point = tuple[float, float]
# What is drawn of large plans and long histories.
MODULES, DEPTH, PAST, DOTS = 1500, 50, 50, 1000
CELL, HEIGHT, LEFT = 34, 26, 74
NODE_WIDTH, NODE_HEIGHT = 26, 20


def tree(found: RunStatus) -> tuple[str, int]:
    """The forest of modules, a row for each sequence, and how many rows were left out."""
    every = rows(found.sequences)
    depth = min(DEPTH, max(len(row.path) for row in every))
    drawn = every[: max(10, MODULES // depth)]
    at: dict[Prefix, int] = {}
    edges, nodes = list[str](), list[str]()
    for line, row in enumerate(drawn):
        y = HEIGHT * line + HEIGHT // 2
        live = len(found.prefixes[row.sequence])
        nodes.append(f'<text x="0" y="{y + 4}">{row.sequence}: {live}/{len(row.path)}</text>')
        for prefix in _new_in(row):
            at[prefix] = y
            edges.append(_edge(prefix, at))
            nodes.append(_node(prefix, y, found.state(prefix)))
        if len(row.path) > depth:
            nodes.append(f'<text x="{LEFT + depth * CELL}" y="{y + 4}">…</text>')
    width, height = LEFT + (depth + 1) * CELL, HEIGHT * len(drawn)
    text = f"{found.live_counts.modules} of {found.modules} modules live in {len(every)} sequences"
    return (
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{text}">{"".join(edges)}{"".join(nodes)}</svg>',
        len(every) - len(drawn),
    )


def _new_in(row: Row) -> list[Prefix]:
    return [row.path[: depth + 1] for depth in range(row.start, min(len(row.path), DEPTH))]


def _left(depth: int) -> int:
    return LEFT + (depth - 1) * CELL


def _edge(prefix: Prefix, at: dict[Prefix, int]) -> str:
    if len(prefix) == 1:
        return ""
    start, end = _left(len(prefix) - 1) + NODE_WIDTH, _left(len(prefix))
    middle = start + (end - start) // 2
    return f'<path class="edge" d="M{start} {at[prefix[:-1]]}H{middle}V{at[prefix]}H{end}"/>'


def _node(prefix: Prefix, y: int, state: str) -> str:
    x, top = _left(len(prefix)), y - NODE_HEIGHT // 2
    size = f'width="{NODE_WIDTH}" height="{NODE_HEIGHT}"'
    struck = f'<path d="M{x + 2} {y}h{NODE_WIDTH - 4}"/>' if state == "dead" else ""
    return (
        f'<g class="node {state}"><rect x="{x}" y="{top}" {size} rx="4"/>'
        f'<text x="{x + NODE_WIDTH // 2}" y="{y + 4}">{prefix[-1]}</text>{struck}</g>'
    )


@dataclass(frozen=True)
class Axes:
    """From numbers to places in a drawing of 720 by 300."""

    first: float
    last: float
    low: float = 0.0
    high: float = 1.0

    def x(self, value: float) -> float:
        return 52 + 650 * (value - self.first) / ((self.last - self.first) or 1)

    def y(self, value: float) -> float:
        return 262 - 240 * (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)

    def line(self, points: Sequence[Point], look: str) -> str:
        if not points:
            return ""
        places = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        return f'<polyline class="line {look}" points="{places}"/>'

    def dot(self, x: float, y: float) -> str:
        return f'<circle class="dot" cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="3"/>'

    def upright(self, value: float, look: str) -> str:
        x = f"{self.x(value):.1f}"
        return f'<path class="{look}" d="M{x} {self.y(self.high):.0f}V{self.y(self.low):.0f}"/>'

    def label(self, value: float, text: str, down: int = 280, anchor: str = "middle") -> str:
        return f'<text x="{self.x(value):.1f}" y="{down}" text-anchor="{anchor}">{text}</text>'

    def levels(self, show: Callable[[float], str] = "{:.0%}".format) -> str:
        """Lines across, with what they stand for."""
        found = []
        for part in range(5):
            value = self.low + (self.high - self.low) * part / 4
            y = self.y(value)
            found.append(f'<path class="grid" d="M52 {y:.0f}H702"/>')
            found.append(f'<text x="46" y="{y + 4:.0f}" text-anchor="end">{show(value)}</text>')
        return "".join(found)


def _chart(text: str, *parts: str) -> str:
    inside = "".join(parts)
    return f'<svg class="chart" viewBox="0 0 720 300" role="img" aria-label="{text}">{inside}</svg>'


def unlearning_curve(found: RunStatus) -> str:
    """What was live after each request, and what to expect after further ones; all in shares of the whole."""
    ahead, served = found.forecast, len(found.past.requests)
    further = 0 if found.exhausted else len(ahead.alive) - 1
    first = max(0, served - PAST)
    *events, _ = steps = [step for step in found.past.steps if step.requests >= first]
    now = max(map(_place, events), default=float(served))
    axes = Axes(first, max(now + further, first + 1))
    places = [*map(_place, events), now]
    modules = [step.live_counts.modules for step in steps]
    groups = [step.live_counts.groups for step in steps]
    parts = [
        axes.levels(),
        _counts(axes, range(first, served + 1), now, further),
        axes.upright(now, "now"),
        *(_triangle(axes, _place(step)) for step in events if step.trained and step.requests),
        axes.line(_stairs(places, modules, found.modules), "modules"),
        axes.line(_stairs(places, groups, found.groups), "groups"),
    ]
    if further:
        alive = [(now + count, float(value)) for count, value in enumerate(ahead.alive)]
        left = [(now + count, value / found.groups) for count, value in enumerate(ahead.live_groups)]
        parts += [axes.line(left, "groups ahead"), axes.line(alive, "alive ahead")]
    return _chart("live modules and groups after each request, and the forecast", *parts)


def _place(step: HistoryPoint) -> float:
    """A training stands between the requests before and after it."""
    return step.requests + (0.5 if step.trained and step.requests else 0.0)


def _stairs(places: Sequence[float], values: Sequence[int | None], whole: int) -> list[Point]:
    """What was live stays so until the next event; where nobody knows, nothing is drawn."""
    found: list[Point] = []
    for place, value in zip(places, values, strict=True):
        if value is not None:
            if found:
                found.append((place, found[-1][1]))
            found.append((place, value / whole))
    return found


def _counts(axes: Axes, past: range, now: float, further: int) -> str:
    """Requests so far by number, those to come with a plus; not so many that they touch."""
    step = max(1, math.ceil((len(past) + further) / 14))
    room = step * 0.7
    numbers = [axes.label(count, str(count)) for count in past[::step] if now - count >= room]
    coming = [axes.label(now + count, f"+{count}") for count in range(step, further + 1, step)]
    return "".join([*numbers, axes.label(now, "now"), *coming])


def _triangle(axes: Axes, place: float) -> str:
    x, y = axes.x(place), axes.y(0)
    return f'<path class="trained" d="M{x - 5:.1f} {y:.0f}l5 -9l5 9z"/>'


def accuracy_curves(sequences: Sequence[Sequence[float]]) -> str:
    """Accuracy of each sequence against the number of its modules."""
    values = [value for curve in sequences for value in curve]
    low = min(0.9, math.floor(10 * min(values)) / 10)
    longest = max(map(len, sequences))
    axes = Axes(1, max(2, longest), low, 1.0)
    step = max(1, math.ceil(longest / 12))
    parts = [axes.levels(), *(axes.label(depth, str(depth)) for depth in range(1, longest + 1, step))]
    for curve in sequences:
        points = [(float(depth), value) for depth, value in enumerate(curve, start=1)]
        parts += [axes.line(points, "curve"), *(axes.dot(x, y) for x, y in points)]
    return _chart("accuracy of each sequence against the number of its modules", *parts)


def seconds_over_records(points: Sequence[Point], line: Point | None) -> tuple[str, int]:
    """Modules as dots, with a line given by its start and slope; and how many of them are drawn."""
    drawn = points[:: math.ceil(len(points) / DOTS)]
    most, longest = max(x for x, _ in points), max(y for _, y in points)
    ends = _ends(line, most) if line is not None else []
    axes = Axes(0, _round_up(most), 0, _round_up(max([longest, *(y for _, y in ends)])))
    quarters = [axes.last * part / 4 for part in range(5)]
    parts = [
        axes.levels(_short),
        *(axes.label(value, _short(value)) for value in quarters),
        *(axes.dot(x, y) for x, y in drawn),
        axes.line(ends, "groups"),
    ]
    return _chart("seconds of each module over its records", *parts), len(drawn)


def _ends(line: Point, most: float) -> list[Point]:
    """Of the line within the drawing, which has no time below zero."""
    start, slope = line
    first = -start / slope if start < 0 < slope else 0.0
    return [(x, start + slope * x) for x in (first, most)]


def _round_up(value: float) -> float:
    """To a number whose quarters are short."""
    if value <= 0:
        return 1.0
    ten = 10.0 ** math.floor(math.log10(value))
    return next(
        ten * step for step in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10) if value <= ten * step * (1 + 1e-9)
    )


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
