"""The picture of a comparison: accuracy against deletion requests, a line for each system."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from fedsgt.errors import InputError
from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.api.results.comparison import Comparison, Mean

SUFFIXES = (".svg", ".png", ".pdf")
# Told apart by people who do not see colours, too, and in print.
LOOKS = (
    ("#2563a8", "o", "-"),
    ("#c2571a", "s", "--"),
    ("#3c8d4f", "^", "-."),
    ("#8a4fa3", "D", (0, (5, 1, 1, 1, 1, 1))),
    ("#8c6d1f", "v", "-"),
    ("#555555", "P", "--"),
    ("#b03a5b", "X", "-."),
)


class Drawing(Figure):
    """A figure that a notebook shows, whichever backend it has; nothing of pyplot is changed for it."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()


def draw(found: Comparison, path: Path | None) -> Figure:
    """Draw the comparison, and write it to the file if there is one."""
    if path is not None and path.suffix.lower() not in SUFFIXES:
        raise InputError(f"plot: {str(path)!r} is no picture's name; it must end in {', '.join(SUFFIXES)}")
    # The salt makes equal pictures equal files.
    with mpl.rc_context({"svg.hashsalt": "fedsgt", "font.size": 9}):
        figure = Drawing(figsize=(7, 4.2), layout="constrained")
        axes = figure.add_subplot()
        for number, system in enumerate(found.systems):
            _line(axes, found, system, number)
        axes.axhline(found.chance, color="0.6", linewidth=0.9, linestyle=":", zorder=1)
        # Beside the axes, where no line ends.
        beside: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        axes.annotate("chance", (1, found.chance), (3, 0), va="center", fontsize=8, color="0.45", **beside)
        _finish(axes, found)
        if path is not None:
            _write(figure, path)
    return figure


def _line(axes: Axes, found: Comparison, system: str, number: int) -> None:
    """Draw the mean of the seeds that are served, as far as most of them are, and where that ends."""
    colour, marker, style = LOOKS[number % len(LOOKS)]
    points: list[tuple[int, Mean]] = []
    for request in range(found.requests + 1):
        mean, share = found.accuracy_after(system, request)
        if share > 0.5:
            points.append((request, mean))
        elif points:
            break
    if not points:
        axes.plot([], [], color=colour, marker=marker, linestyle=style, label=f"{system} (never served)")
        return
    places, values = [place for place, _ in points], [mean.value for _, mean in points]
    ended = places[-1] < found.requests
    label = f"{system} ({_end(found, system, places[-1] + 1)})" if ended else system
    axes.plot(
        places,
        values,
        color=colour,
        marker=marker,
        markersize=4,
        linestyle=style,
        linewidth=1.6,
        label=label,
        zorder=3,
    )
    low, high = zip(*(_interval(found, system, place, mean) for place, mean in points), strict=True)
    axes.fill_between(places, low, high, color=colour, alpha=0.1, linewidth=0, zorder=2)
    if ended:
        # The service ends with the next request: from there on a user gets no more than a guess.
        end: dict[str, Any] = {"color": colour, "zorder": 3}
        axes.plot(
            [places[-1], places[-1] + 1], [values[-1], found.chance], linewidth=0.9, linestyle=":", **end
        )
        axes.plot([places[-1] + 1], [found.chance], marker="x", markersize=7, markeredgewidth=1.8, **end)


def _end(found: Comparison, system: str, request: int) -> str:
    """Return in words how the service ends with this request."""
    left = found.accuracy_after(system, request)[0].count
    return f"ends at request {request}" if not left else f"most seeds end by request {request}"


def _interval(found: Comparison, system: str, request: int, mean: Mean) -> tuple[float, float]:
    """Return the 95 % interval over seeds; of a single seed, that of its test records."""
    if mean.count > 1:
        return mean.bounds()
    for point in found.points:
        if (point.system, point.request) == (system, request) and point.low is not None:
            assert point.high is not None
            return point.low, point.high
    return mean.value, mean.value


def _finish(axes: Axes, found: Comparison) -> None:
    seeds = len(found.seeds)
    band = f"over {counted(seeds, 'seed')}" if seeds > 1 else "of the test records"
    axes.set_xlabel(f"deletion requests ({found.stream})")
    axes.set_ylabel("accuracy")
    axes.set_title(f"Accuracy after deletions; bands are 95 % intervals {band}", fontsize=9, loc="left")
    axes.set_ylim(0, 1.02)
    axes.set_xlim(-0.15, found.requests + 0.15)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    count = len(found.systems)
    # Below the picture, since lines may be anywhere in it.
    axes.figure.legend(
        loc="outside lower center", ncols=count if count <= 4 else -(-count // 2), frameon=False, fontsize=8.5
    )


def _write(figure: Figure, path: Path) -> None:
    try:
        figure.savefig(path, metadata={"Date": None} if path.suffix.lower() == ".svg" else None, dpi=150)
    except OSError as error:
        raise InputError(f"plot: {path} cannot be written ({error.strerror})") from None
