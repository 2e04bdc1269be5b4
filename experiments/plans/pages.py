"""Tables and pictures of plans that are compared."""

from __future__ import annotations

from pathlib import Path

from experiments.harness.names import PARTITIONS, name
from experiments.harness.plots import COLOURS, band, figure
from experiments.harness.report import Table
from experiments.harness.results import Results
from experiments.harness.statistics import mean_of
from fedsgt.plans.scoring.scores import horizon

PLANS = {
    "rotations": "rotations",
    "tree": "tree, equal service",
    "tree-cost": "tree, equal cost",
    "greedy-cost": "greedy, equal cost",
}
SCORED = PLANS | {"greedy": "greedy, equal service"}
STRATEGIES = {"all": "AllSeq", "long": "LongSeq"}
REQUESTS = range(16)


def exact_table(results: Results, sizes: list[int]) -> Table:
    rows = []
    for groups in sizes:
        cell = f"exact-{groups}"
        base = results.values(cell, "rotations")[0]
        for plan, shown in SCORED.items():
            passes = mean_of(results.values(cell, plan, "passes"))
            live = mean_of(results.values(cell, plan, "mean_live"))
            modules = mean_of(results.values(cell, plan, "modules"))
            rows.append(
                [
                    str(groups),
                    shown,
                    passes.text(1),
                    f"{passes.value / base['passes']:.3f}",
                    f"{modules.value:.0f}",
                    live.text(1, 3),
                    f"{live.value / base['mean_live'] - 1:+.1%}",
                    f"{mean_of(results.values(cell, plan, 'rate')).value:.2f}",
                ]
            )
    return Table(
        "Exact scores (live groups: mean over 1..1.5 L requests; intervals over seeds of the search)",
        ("L", "plan", "passes", "of rotations'", "modules", "live groups", "more", "deletion rate"),
        rows,
    )


def trained_tables(results: Results, task: str, partition: str, groups: int) -> list[Table]:
    rows = []
    for plan, shown in PLANS.items():
        cell = name(task, partition, plan)
        passes, modules = (results.values(cell, key)[0] for key in ("passes", "modules"))
        for strategy, words in STRATEGIES.items():
            row = [shown, f"{passes:g}", str(modules), words]
            for number in (0, 5, 10, 15):
                found = [curve[number] for curve in results.values(cell, "curves", strategy)]
                row.append("-" if None in found else mean_of(found).text())
            row.append(mean_of(mean_live(results, cell, groups)).text())
            row.append(mean_of(results.values(cell, "withstood")).text(1))
            rows.append(row)
    after = [f"after {number}" for number in (0, 5, 10, 15)]
    head = (
        "plan",
        "passes",
        "modules",
        "selection",
        *after,
        f"live data, 1..{max(horizon(groups))}",
        "withstood",
    )
    return [Table(f"{task}, {PARTITIONS[partition]}: accuracy in percent after requests", head, rows)]


def mean_live(results: Results, cell: str, groups: int) -> list[float]:
    """Return the mean live data over the requests that the search for a plan looks at, for each seed."""
    return [mean_of([curve[at] for at in horizon(groups)]).value for curve in results.values(cell, "live")]


def draw_exact(file: Path, results: Results, sizes: list[int]) -> None:
    with figure(file, len(sizes), width=3.8) as panels:
        for axes, groups in zip(panels, sizes, strict=True):
            for number, (plan, shown) in enumerate(PLANS.items()):
                curves = results.values(f"exact-{groups}", plan, "live")
                means = [mean_of(column).value for column in zip(*curves, strict=True)]
                passes = mean_of(results.values(f"exact-{groups}", plan, "passes")).value
                style = "--" if plan == "tree" else "-"
                axes.plot(means, style, color=COLOURS[number], label=f"{shown} ({passes:.3g} passes)")
            axes.set_title(f"L={groups}")
            axes.set_xlim(0, 3 * groups)
            axes.set_xlabel("requests")
            axes.set_ylabel("expected live data")
            axes.legend(fontsize=7)


def draw_trained(file: Path, results: Results, task: str, partition: str) -> None:
    with figure(file, 3, width=4) as (left, middle, right):
        for number, (plan, shown) in enumerate(PLANS.items()):
            cell = name(task, partition, plan)
            label = f"{shown} ({results.values(cell, 'passes')[0]:g} passes)"
            band(left, results.values(cell, "curves", "all"), label, number)
            band(middle, results.values(cell, "curves", "long"), label, number)
            band(right, results.values(cell, "live"), label, number)
        left.set_ylabel("accuracy (AllSeq)")
        middle.set_ylabel("accuracy (LongSeq)")
        right.set_ylabel("live data")
        for axes in (left, middle, right):
            axes.set_xlabel("requests")
            axes.set_xlim(0, 20)
            axes.set_ylim(0, 1.03)
        left.legend(fontsize=7)
