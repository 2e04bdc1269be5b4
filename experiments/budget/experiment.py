"""Number of sequences: accuracy after training and under requests (the paper's Figures 8 and 9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.budget.pages import claims, draw, tables
from experiments.harness.bench import Bench, Trained, described
from experiments.harness.common import common
from experiments.harness.curves import unlearning_curve
from experiments.harness.live import longest, rounded, simulated
from experiments.harness.names import PARTITIONS, name
from experiments.harness.report import Plot, Report
from experiments.harness.requests import Stream, streams
from experiments.harness.results import Cell, Results
from experiments.harness.settings import Settings
from fedsgt.plans import Plan, make, rotations


def cells(settings: Settings) -> list[Cell]:
    """Return a cell for budgets up to L, which trains nothing of its own, and one for those above."""
    keys = {"rotations": "fewer", "iterative": "more"}
    return [
        Cell(
            name(task, partition, kind),
            {"task": task, "partition": partition, "kind": kind, "budgets": settings[key]}
            | {key: settings[key] for key in ("streams", "requests")},
            task,
        )
        for task in settings.tasks
        for partition in settings.partitions
        for kind, key in keys.items()
    ]


def measure(settings: Settings, cell: Cell, seed: int, work: Path) -> dict[str, Any]:
    about, bench = cell.about, Bench(work)
    most = max(about["budgets"])
    overrides = ["plan.kind=iterative-rotations", f"plan.budget={most}"]
    run = bench.config(
        about["task"],
        seed,
        "fedsgt",
        about["partition"],
        overrides if about["kind"] == "iterative" else (),
    )
    trained = bench.trained(run)
    drawn = streams("slice", trained.records(), about["streams"], about["requests"], seed)
    chosen = _plans(about["kind"], trained.plan.groups, about["budgets"])
    return {
        "plans": {label: _measured(trained, plan, drawn) for label, plan in chosen.items()},
        "settings": described(run),
    }


def _plans(kind: str, groups: int, budgets: list[int]) -> dict[str, Plan]:
    """Return the plans by kind and budget, as in `first-6`."""
    if kind == "iterative":
        return {f"iterative-{budget}": make("iterative-rotations", groups, budget) for budget in budgets}
    found = {f"rotations-{groups}": rotations(groups)}
    for budget in budgets:
        found[f"spread-{budget}"] = rotations(groups, budget)
        found[f"first-{budget}"] = make("rotations-first", groups, budget)
    return found


def _measured(trained: Trained, plan: Plan, drawn: list[Stream]) -> dict[str, Any]:
    """Return the measurements of a plan whose sequences are all among those that were trained."""
    absent = set(plan.sequences) - set(trained.plan.sequences)
    assert not absent, f"{plan.kind}: {sorted(absent)} are not sequences of the run"
    trained.predict_all()
    curves = {
        strategy: unlearning_curve(trained, drawn, strategy, plan.sequences) for strategy in ("all", "long")
    }
    live = simulated(longest(plan.sequences), trained.groups_of, drawn)
    return {
        "accuracy": {name: trained.accuracy((), name, plan.sequences) for name in ("all", "long")},
        "curves": {name: _short(curve) for name, curve in curves.items()},
        "live": rounded(value / plan.groups for value in live["live"]),
        "withstood": live["rate"] - 1,
        "passes": plan.passes,
    }


def _short(curve: dict[str, Any]) -> dict[str, Any]:
    """Return the curve without values that are the same for all strategies and streams."""
    return {
        "accuracy": [None if value is None else round(value, 5) for value in curve["accuracy"]],
        "alive": rounded(curve["alive"]),
    }


def report(settings: Settings, results: Results) -> Report:
    pairs = [(task, partition) for task in settings.tasks for partition in settings.partitions]
    shown = {}
    for pair in pairs:
        kinds = [kind for kind in ("rotations", "iterative") if results.cells.get(name(*pair, kind))]
        found = common(results, [name(*pair, kind) for kind in kinds]) if kinds else None
        if found and "rotations" in kinds:
            shown[pair] = found
    plots = [
        Plot(
            f"{task.replace('/', '-')}-{partition}",
            f"{task}, {PARTITIONS[partition]}: accuracy after training by number of sequences (left), of the "
            "streams still served under requests (middle; dashed are the first B rotations), share of "
            "streams still served (right).",
            _drawer(found, task, partition),
        )
        for (task, partition), found in shown.items()
    ]
    return Report(
        [table for pair, found in shown.items() for table in tables(found, *pair)],
        plots,
        [claim for pair, found in shown.items() for claim in claims(found, *pair)],
    )


def _drawer(found: Results, task: str, partition: str) -> Any:
    return lambda file: draw(file, found, task, partition)
