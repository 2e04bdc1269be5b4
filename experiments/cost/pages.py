"""Tables and the picture of what training costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.cost.reading import (
    ROUNDS,
    SYSTEMS,
    cell,
    counted,
    forms_of,
    grown,
    hours_of,
    matched,
    ratio,
    seconds,
    sequences,
)
from experiments.harness.plots import COLOURS, bars, figure
from experiments.harness.report import Table
from experiments.harness.results import Results
from experiments.harness.settings import Settings
from experiments.harness.statistics import mean_of
from fedsgt import theory


def tables(settings: Settings, results: Results, tasks: list[str]) -> list[Table]:
    found = []
    if tasks:
        found.append(_times(settings, results, tasks))
    if tasks and len(settings["records"]) > 1:
        found.append(_growth(settings, results, tasks))
    found.append(_budgets(settings, results, tasks))
    if results.cells.get("traffic"):
        found.append(_traffic(settings, results, tasks))
    if results.cells.get("federated"):
        found.append(_federated(results))
    return found


def _times(settings: Settings, results: Results, tasks: list[str]) -> Table:
    rows = []
    for task in tasks:
        hours = hours_of(task)
        passes = {system: counted(settings, results, task, system) for system in SYSTEMS}
        for index, system in enumerate(SYSTEMS):
            spent, count = mean_of(seconds(settings, results, task, system)), passes[system]
            each = f" ({spent.value / sequences(settings, results, task):.1f})" if system == "fedsgt" else ""
            rows.append(
                [
                    task,
                    SYSTEMS[system],
                    f"{spent.text(1)}{each}",
                    f"{count:g}",
                    mean_of(ratio(settings, results, task, system)).text(1, 2),
                    mean_of(seconds(settings, results, task, system, what="again")).text(1),
                    mean_of(ratio(settings, results, task, system, "again")).text(1, 2),
                    f"{count / passes['fedavg']:.2f}",
                    f"{hours[index]:.2f} h" if hours else "-",
                    f"{hours[index] / hours[0]:.2f}" if hours else "-",
                ]
            )
    return Table(
        f"CPU seconds of training {settings['records'][0]} records from nothing (in parentheses: a sequence)",
        (
            "task",
            "system",
            "CPU s",
            "passes",
            "over FedAvg",
            "frozen layers known: CPU s",
            "over FedAvg",
            "passes over FedAvg's",
            "the paper",
            "over FedAvg there",
        ),
        rows,
    )


def _growth(settings: Settings, results: Results, tasks: list[str]) -> Table:
    rows = []
    for task in tasks:
        for system in settings["grown"]:
            row = [task, SYSTEMS[system]]
            for size in range(len(settings["records"])):
                found = seconds(settings, results, task, system, size)
                row.append(mean_of(found).text(1) if found else "-")
            growth = grown(settings, results, task, system)
            rows.append([*row, growth.text(1, 2) if growth.count else "-"])
    sizes = [f"{records} records" for records in settings["records"]]
    return Table("CPU seconds by number of records", ("task", "system", *sizes, "ratio"), rows)


def _budgets(settings: Settings, results: Results, tasks: list[str]) -> Table:
    groups = settings["groups"]
    rows = [
        ["the paper's text", "36"],
        [
            "its formula, 2TL/(L+1), which charges FedAvg for L modules",
            f"{float(theory.matched_budget(ROUNDS, groups)):.2f}",
        ],
        [
            "equal passes over the data, 2T/(L+1)",
            f"{float(theory.matched_budget_passes(ROUNDS, groups)):.2f}",
        ],
        *([f"measured, {task}", mean_of(matched(settings, results, task)).text(1, 2)] for task in tasks),
    ]
    return Table("Sequences that cost as much as FedAvg's ten rounds (L = 10)", ("by", "B"), rows)


def _traffic(settings: Settings, results: Results, tasks: list[str]) -> Table:
    size = max((_bytes(settings, results, task) for task in tasks), default=0)
    rows = []
    for slices in settings["slices"]:
        entries = results.values("traffic", f"S={slices}")
        rounds = mean_of([entry["rounds"] for entry in entries])
        fetched = mean_of([entry["fetched"] for entry in entries])
        extremes = f"{min(entry['least'] for entry in entries)} to {max(entry['most'] for entry in entries)}"
        forms = forms_of(settings, slices)
        rows.append(
            [
                f"FedSGT, S={slices}",
                f"{rounds.text(1, 2)} ({extremes})",
                f"{forms['paper']:.2f}",
                f"{forms['balanced']:.2f}",
                f"{rounds.value:.1f} up, {rounds.value + fetched.value:.1f} down",
                _mega((2 * rounds.value + fetched.value) * size),
            ]
        )
    for name, count in (("FedAvg", ROUNDS), ("FedCIO", ROUNDS + 1)):
        printed = f"{count}" if name == "FedAvg" else f"{ROUNDS + 2}"
        rows.append([name, str(count), printed, "-", f"{count} up, {count} down", _mega(2 * count * size)])
    return Table(
        "Rounds of a client (least to most), modules that it sends and fetches, bytes (largest task above)",
        ("system", "rounds", "the paper's form", "balanced form", "modules", "both ways"),
        rows,
    )


def _federated(results: Results) -> Table:
    rows = []
    for name in results.values("federated")[0]:
        entries = results.values("federated", name)
        counts = [
            mean_of([entry[what] for entry in entries]).text(1) for what in ("rounds", "updates", "messages")
        ]
        sizes = [
            _mega(mean_of([entry[way][place] for entry in entries]).value)
            for way in ("up", "down")
            for place in (0, 1)
        ]
        rows.append([name, *counts, *sizes])
    return Table(
        "What Flower carried for a client, on digits (one training; all modules of a depth in one message)",
        ("system", "rounds by plan", "updates", "messages", "up by plan", "up", "down by plan", "down"),
        rows,
    )


def _bytes(settings: Settings, results: Results, task: str) -> int:
    return int(results.values(cell(task, settings["records"][0]), "fedsgt", "module_bytes")[0])


def _mega(count: float) -> str:
    return f"{count / 1e6:.2f} MB" if count else "-"


def draw(file: Path, settings: Settings, results: Results, tasks: list[str]) -> None:
    with figure(file, 3, width=3.8) as (left, middle, right):
        _draw_times(left, settings, results, tasks)
        for place, task in enumerate(tasks):
            _draw_growth(middle, settings, results, task, "o-" if place == 0 else "s--")
            phases = results.values(cell(task, settings["records"][0]), "fedsgt", "phases")
            shares = [[value / (sum(seed) / len(seed)) for value in seed] for seed in phases]
            means = [mean_of(column).value for column in zip(*shares, strict=True)]
            depths = range(1, len(means) + 1)
            right.plot(depths, means, "o-", color=COLOURS[place], label=task, markersize=3)
        even = [2 * depth / (len(means) + 1) for depth in depths]
        right.plot(depths, even, "--", color="black", label="in proportion")
        left.set_ylabel("CPU seconds")
        middle.set_ylabel("CPU seconds")
        middle.set_xlabel("records")
        middle.set_xlim(left=0)
        middle.set_ylim(bottom=0)
        right.set_xlabel("phase (groups trained on)")
        right.set_ylabel("CPU time, over the mean")
        for axes in (left, middle, right):
            axes.legend(fontsize=7)


def _draw_times(axes: Any, settings: Settings, results: Results, tasks: list[str]) -> None:
    """Draw bars, each with a mark at the height that FedAvg's time and the passes predict."""
    series = {
        shown: [mean_of(seconds(settings, results, task, system)) for task in tasks]
        for system, shown in SYSTEMS.items()
    }
    bars(axes, tasks, series)
    for place, task in enumerate(tasks):
        base = mean_of(seconds(settings, results, task, "fedavg")).value
        one = base / counted(settings, results, task, "fedavg")
        for number, system in enumerate(SYSTEMS):
            expected = one * counted(settings, results, task, system)
            axes.plot(place + (number - 1) * 0.8 / 3, expected, "_", color="black", markersize=14)


def _draw_growth(axes: Any, settings: Settings, results: Results, task: str, style: str) -> None:
    for number, system in enumerate(settings["grown"]):
        points = []
        for size, records in enumerate(settings["records"]):
            found = seconds(settings, results, task, system, size)
            points += [(records, mean_of(found).value)] if found else []
        xs, ys = zip(*sorted(points), strict=True)
        shown = f"{SYSTEMS[system]}, {task}"
        axes.plot(xs, ys, style, color=COLOURS[2 * number], label=shown, markersize=4)
