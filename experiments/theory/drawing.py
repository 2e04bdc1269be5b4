"""The pictures: closed forms as lines, simulated streams as points."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.harness.plots import COLOURS, figure
from experiments.harness.results import Results
from experiments.harness.settings import Settings
from experiments.harness.statistics import mean_of
from experiments.theory.reading import average, in_figure, of_clients, words

SURVIVAL = (
    "Chance that something still serves: requests within one slice (left), whole clients (right). "
    "Lines are closed forms, points are simulated (right: simulated only)."
)


def live_caption(settings: Settings) -> str:
    return (
        "The paper's figure: expected live data by closed form (lines) and simulated (points). "
        "FedCIO's line sums the data of disjoint models, of which none has more than "
        f"1/{settings['clusters']}: the dotted line is the data behind its best single model. "
        "Right: evenly spread offsets against the first ones, for fewer sequences than groups."
    )


def draw_live(file: Path, settings: Settings, results: Results, base: str) -> None:
    groups, clusters = settings["groups"], settings["clusters"]
    with figure(file, 2, width=5) as (left, right):
        for number, plan in enumerate(in_figure(settings)):
            _line(left, results, (base, plan, "live"), 1 / groups, f"FedSGT, {words(plan)}", number)
        _line(left, results, ("fedcio", "fedcio", "live"), 1 / clusters, "FedCIO, sum of models", 5, "--")
        alive = results.values("fedcio", "fedcio", "theory", "alive")[0]
        left.plot(
            [share / clusters for share in alive], ":", color=COLOURS[5], label="FedCIO, best single model"
        )
        for number, budget in enumerate(settings["fewer"]):
            for kind, dashes in (("spread", "-"), ("first", "--")):
                plan = f"{kind}-{budget}"
                _line(right, results, (base, plan, "live"), 1 / groups, words(plan), number, dashes)
        for axes, most in ((left, 40), (right, 25)):
            axes.set_xlim(0, most)
            axes.set_xlabel("requests")
            axes.set_ylabel("expected live data")
            axes.legend(fontsize=7)


def draw_survival(file: Path, settings: Settings, results: Results, base: str) -> None:
    with figure(file, 2, width=5) as (left, right):
        for number, budget in enumerate(settings["fewer"]):
            _line(left, results, (base, f"spread-{budget}", "alive"), 1, f"FedSGT, B={budget}", number)
        name = f"rotations-{settings['groups']}"
        _line(left, results, (base, name, "alive"), 1, f"FedSGT, B={settings['groups']} and more", 3)
        _line(left, results, ("fedcio", "fedcio", "alive"), 1, "FedCIO", 5, "--")
        for number, name in enumerate(of_clients(settings) if results.cells.get("clients") else ()):
            curves = results.values("clients", name, "alive")
            means = [mean_of(column).value for column in zip(*curves, strict=True)]
            shown, style = ("FedCIO", "--") if name == "fedcio" else (f"FedSGT, {name}", "-")
            right.plot(means, style, color=COLOURS[5 if name == "fedcio" else number], label=shown)
        left.set_xlabel("requests within one slice")
        right.set_xlabel("whole clients that left")
        for axes in (left, right):
            axes.set_ylabel("chance of service")
            if axes.lines:
                axes.legend(fontsize=7)


def _line(
    axes: Any,
    results: Results,
    path: tuple[str, str, str],
    scale: float,
    label: str,
    number: int,
    style: str = "-",
) -> None:
    cell, plan, what = path
    curve = results.values(cell, plan, "theory", what)[0]
    axes.plot([scale * value for value in curve], style, color=COLOURS[number], label=label, linewidth=1.4)
    points = range(0, len(curve), 3)
    means = [scale * average(results, cell, plan, "simulated", what, at).value for at in points]
    axes.plot(points, means, ".", color=COLOURS[number], markersize=4)
