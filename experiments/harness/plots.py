"""Plots in one style, without a window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes

from experiments.harness.statistics import Mean, mean_of

COLOURS = ("#2563a8", "#c2571a", "#3c8d4f", "#8a4fa3", "#8c6d1f", "#555555", "#b03a5b")
STYLE: Any = {
    "figure.dpi": 110,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
}


@contextmanager
def figure(
    file: Path, panels: int = 1, width: float = 4.2, height: float = 3.2, rows: int = 1
) -> Iterator[list[Axes]]:
    """Yield panels, row after row, and write the picture when the block ends."""
    with matplotlib.rc_context(STYLE):
        size = (width * panels, height * rows)
        drawn, axes = pyplot.subplots(rows, panels, figsize=size, squeeze=False)
        try:
            yield list(axes.flat)
            drawn.tight_layout()
            file.parent.mkdir(parents=True, exist_ok=True)
            # Without a date or a version inside, equal results are equal files.
            drawn.savefig(file, metadata={"Software": None} if file.suffix == ".png" else None)
        finally:
            pyplot.close(drawn)


def band(axes: Axes, curves: Sequence[Sequence[float | None]], label: str, number: int, **style: Any) -> None:
    """Draw the mean of the seeds' curves with its 95 % interval, as far as most seeds have a value."""
    length = max(map(len, curves), default=0)
    points = []
    for x in range(length):
        values = [curve[x] for curve in curves if x < len(curve)]
        known = [value for value in values if value is not None]
        if known and 2 * len(known) > len(curves):
            points.append((x, mean_of(known)))
    if not points:
        return
    xs = [x for x, _ in points]
    means = np.array([mean.value for _, mean in points])
    halves = np.nan_to_num(np.array([mean.half for _, mean in points]))
    colour = COLOURS[number % len(COLOURS)]
    axes.plot(xs, means, color=colour, label=label, **({"linewidth": 1.6} | style))
    # Shares and accuracies are between 0 and 1; an interval of few seeds may reach beyond that.
    low, high = np.clip(means - halves, 0, None), np.clip(means + halves, None, max(1, means.max()))
    axes.fill_between(xs, low, high, color=colour, alpha=0.15, linewidth=0)


def bars(axes: Axes, groups: Sequence[str], series: Mapping[str, Sequence[Mean]]) -> None:
    """Draw means with intervals: a cluster of bars for each group, one bar for each series."""
    width = 0.8 / max(1, len(series))
    for number, (name, means) in enumerate(series.items()):
        places = np.arange(len(groups)) + (number - (len(series) - 1) / 2) * width
        heights = [mean.value for mean in means]
        errors = np.nan_to_num([mean.half for mean in means])
        axes.bar(
            places,
            heights,
            width * 0.92,
            yerr=errors,
            label=name,
            color=COLOURS[number % len(COLOURS)],
            capsize=2,
            error_kw={"linewidth": 0.8},
        )
    axes.set_xticks(np.arange(len(groups)), groups)
