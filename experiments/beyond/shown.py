"""Tables, pictures and claims of the first look beyond the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.beyond.answers import HEADS
from experiments.harness.plots import COLOURS, band, figure
from experiments.harness.report import Claim, Table, verdict
from experiments.harness.results import Cell, Results
from experiments.harness.statistics import Mean, difference, mean_of

ASKED = {"slice": "requests for a tenth of a slice", "client": "whole clients, until one is left"}
NAMES = {
    "trained": "AllSeq, trained heads",
    "ridge": "ridge: the bare backbone alone",
    "solved": "solved heads",
}
MARKERS = {"trained": "o", "ridge": "x", "solved": "s"}
PAPER, FIRST = "window 10", "window 1"
POINT = 0.01
# A forward pass costs about this much of a training step on the same record.
FORWARD = 0.3


def tables(results: Results, shown: Sequence[Cell]) -> list[Table]:
    return [_accuracies(results, shown), _costs(results, shown), _storage()]


def _accuracies(results: Results, shown: Sequence[Cell]) -> Table:
    head = [
        "task",
        "compared",
        "heads",
        "before any",
        "after 5",
        "after 10",
        "mean over slices",
        "over clients",
    ]
    rows = []
    for cell in shown:
        for heads in HEADS:
            curve = _curve(results, cell, "slice", heads)
            at = [curve[number] if number < len(curve) else np.nan for number in (0, 5, 10)]
            means = [mean_of(_means(results, cell, kind, heads)).text() for kind in ASKED]
            rows.append(
                [_task(cell), cell.about["compared"], heads, *(f"{100 * value:.1f}" for value in at), *means]
            )
    return Table(
        "Accuracy in %; a mean is over all requests of a stream, its interval over streams", head, rows
    )


def _costs(results: Results, shown: Sequence[Cell]) -> Table:
    head = [
        "task", "compared", "training passes", "modules", "forward passes, statistics at build", "at serve",
        "the same in training passes", "chains met later",
    ]  # fmt: skip
    rows = []
    for cell in shown:
        found = next(result for _, result in results.seeds(cell.name))
        cost = found["cost"]
        both = [cost["statistics_at_build"], cost["statistics_at_serve"]]
        epochs = found["settings"]["training"]["epochs"]
        same = " / ".join(f"{count * FORWARD / epochs:.1f}" for count in both)
        counts = [
            f"{cost['passes']:.1f}",
            *map(str, (cost["modules"], *both)),
            same,
            str(cost["chains_met_later"]),
        ]
        rows.append([_task(cell), cell.about["compared"], *counts])
    return Table(
        "Cost in passes over the data; ridge alone costs one forward pass and no training", head, rows
    )


def _storage() -> Table:
    """Return what statistics take on the server, as arithmetic: a triangle of 64-bit integers and C."""
    rows = []
    for model, width, labels, module in (("ViT-Base", 768, 100, 2.4), ("RoBERTa-Large", 1024, 3, 10.5)):
        one = statistic_bytes(width, labels) / 1e6
        rows.append(
            [model, str(width), f"{one:.1f} MB", f"{statistic_bytes(2 * width, labels) / 1e6:.1f} MB"]
            + [f"{10 * chains * one / 1000:.2f} GB" for chains in (10, 55, 100)]
            + [f"{100 * module / 1000:.2f} GB"]
        )
    head = [
        "model", "features", "a client's statistic of one chain", "of the backbone",
        "10 clients x 10 chains", "x 55", "x 100", "100 modules",
    ]  # fmt: skip
    return Table("Storage of statistics, 100 labels for ViT-Base and 3 for RoBERTa-Large", head, rows)


def statistic_bytes(width: int, labels: int) -> int:
    """Return the size of a statistic of features of this width, to which a 1 is appended."""
    size = width + 1
    return 8 * (size * (size + 1) // 2 + size * labels)


def draw_streams(results: Results, shown: Sequence[Cell], task: str) -> Callable[[Path], None]:
    cells = [cell for cell in shown if cell.about["task"] == task]

    def draw(file: Path) -> None:
        with figure(file, len(ASKED), width=5.4, height=3.8) as panels:
            for axes, (kind, title) in zip(panels, ASKED.items(), strict=True):
                for number, cell in enumerate(cells):
                    said = cell.about["compared"]
                    _line(axes, results, cell, kind, "solved", f"{said}, solved", number)
                    _line(axes, results, cell, kind, "trained", f"{said}, trained", number, linestyle="--")
                _line(axes, results, cells[0], kind, "ridge", "ridge alone", 5, linestyle=":")
                axes.set(title=title, xlabel="requests", ylabel="accuracy", ylim=(0, None))
            panels[0].legend(fontsize=7, ncol=2)

    return draw


def _line(
    axes: Any, results: Results, cell: Cell, kind: str, heads: str, label: str, number: int, **style: Any
) -> None:
    band(axes, _rows(results, cell, kind, heads), label, number, **style)


def draw_depths(results: Results, shown: Sequence[Cell], task: str) -> Callable[[Path], None]:
    cells = [cell for cell in shown if cell.about["task"] == task]

    def draw(file: Path) -> None:
        with figure(file, width=5.4, height=3.8) as panels:
            for number, cell in enumerate(cells):
                for heads, style in (("solved", "-"), ("trained", "--")):
                    seeds = results.values(cell.name, "depths", heads)
                    depths = sorted({int(depth) for found in seeds for depth in found})
                    known = [
                        [found[str(depth)] for found in seeds if str(depth) in found] for depth in depths
                    ]
                    means = [float(np.mean(values)) for values in known]
                    colour, label = COLOURS[number % len(COLOURS)], f"{cell.about['compared']}, {heads}"
                    panels[0].plot(depths, means, style, marker=".", color=colour, label=label)
            panels[0].set(xlabel="modules in the chain", ylabel="accuracy", ylim=(0, None))
            panels[0].legend(fontsize=7)

    return draw


def draw_costs(results: Results, shown: Sequence[Cell]) -> Callable[[Path], None]:
    """Draw training and statistics of the serving chains against the mean accuracy over slice requests."""
    tasks = list(dict.fromkeys(cell.about["task"] for cell in shown))

    def draw(file: Path) -> None:
        with figure(file, len(tasks), width=4.0, height=3.6) as panels:
            for axes, task in zip(panels, tasks, strict=True):
                for number, cell in enumerate(one for one in shown if one.about["task"] == task):
                    colour = COLOURS[number % len(COLOURS)]
                    for heads in HEADS:
                        x, y = _paid(results, cell, heads), np.mean(_means(results, cell, "slice", heads))
                        # Hollow, as schedules of equal cost come out alike and lie one over the other.
                        filled: dict[str, Any] = {} if heads == "ridge" else {"facecolors": "none"}
                        axes.scatter(x, y, marker=MARKERS[heads], color=colour, s=40 + 50 * number, **filled)
                    axes.plot([], [], color=colour, label=cell.about["compared"])
                for heads in HEADS:
                    axes.scatter([], [], marker=MARKERS[heads], color="#555555", label=NAMES[heads])
                axes.margins(x=0.1, y=0.3)
                axes.set(
                    title=task,
                    xlabel="passes: training and statistics",
                    ylabel="mean accuracy",
                    ylim=(0, None),
                )
                axes.legend(fontsize=7)

    return draw


def _paid(results: Results, cell: Cell, heads: str) -> float:
    """Return passes of training and, at the price of a forward pass, of the statistics that serve."""
    found = next(result for _, result in results.seeds(cell.name))
    forward = FORWARD / found["settings"]["training"]["epochs"]
    made = {"trained": 0, "ridge": 1, "solved": found["cost"]["statistics_at_serve"]}[heads]
    trained = 0.0 if heads == "ridge" else float(found["cost"]["passes"])
    return float(trained + made * forward)


def claims(results: Results, shown: Sequence[Cell]) -> list[Claim]:
    found = []
    for cell in shown:
        said = f"{_task(cell)}, {cell.about['compared']}: solved heads are more accurate than"
        for other in ("trained", "ridge"):
            for kind, asked in ASKED.items():
                mine, theirs = (_means(results, cell, kind, heads) for heads in ("solved", other))
                found.append(
                    _claim(f"{said} {NAMES[other]}, {asked}", difference(mine, theirs), _seeds(results, cell))
                )
    for task in dict.fromkeys(cell.about["task"] for cell in shown):
        found += _window_claims(results, [cell for cell in shown if cell.about["task"] == task])
    return found


def _window_claims(results: Results, cells: Sequence[Cell]) -> list[Claim]:
    """Return the claim of ten rotations for ten passes, if both schedules were measured."""
    by_name = {cell.about["compared"]: cell for cell in cells}
    if not {PAPER, FIRST} <= by_name.keys():
        return []
    cell, paper = by_name[FIRST], by_name[PAPER]
    found = []
    if _seeds(results, cell) != _seeds(results, paper):  # one of them is not all measured yet
        return []
    for heads in ("solved", "trained"):
        lost = difference(_means(results, cell, "slice", heads), _means(results, paper, "slice", heads))
        said = f"{_task(cell)}: a window of 1 is within a point of all the prefix, both with {heads} heads"
        found.append(_claim(said, lost, _seeds(results, cell), equal=POINT))
    return found


def _claim(said: str, found: Mean, seeds: int, equal: float | None = None) -> Claim:
    over = "seeds" if seeds > 1 else "streams of one seed"
    text = f"{found.text()} points in the mean over the requests, {found.count} {over}"
    # Streams of one training differ by their requests alone, which decides nothing about other trainings.
    return Claim(f"{said} (ours)", "-", text, verdict(found, equal=equal) if seeds > 1 else "not decided")


def _means(results: Results, cell: Cell, kind: str, heads: str) -> list[float]:
    """Return the mean over the requests, for each seed, or for each stream if there is one seed only."""
    curves = results.values(cell.name, "curves", kind, heads)
    if len(curves) == 1:
        return [float(np.mean(row)) for row in curves[0]]
    return [float(np.mean(rows)) for rows in curves]


def _seeds(results: Results, cell: Cell) -> int:
    return len(results.cells[cell.name])


def _rows(results: Results, cell: Cell, kind: str, heads: str) -> list[list[float]]:
    curves = results.values(cell.name, "curves", kind, heads)
    return list(curves[0]) if len(curves) == 1 else [_over_streams(rows) for rows in curves]


def _curve(results: Results, cell: Cell, kind: str, heads: str) -> list[float]:
    return _over_streams(_rows(results, cell, kind, heads))


def _over_streams(rows: Iterable[Sequence[float]]) -> list[float]:
    return [float(value) for value in np.mean(list(rows), axis=0)]


def _task(cell: Cell) -> str:
    return str(cell.about["task"])
