"""Rotations against `tree` and `greedy`, at equal cost and at equal service; by score and in trained runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from experiments.harness.bench import Bench, described
from experiments.harness.common import common
from experiments.harness.curves import unlearning_curve
from experiments.harness.live import longest, rounded, simulated
from experiments.harness.names import PARTITIONS, name
from experiments.harness.report import Plot, Report
from experiments.harness.requests import streams
from experiments.harness.results import Cell, Results
from experiments.harness.settings import Settings
from experiments.plans.pages import PLANS, draw_exact, draw_trained, exact_table, trained_tables
from experiments.plans.verdicts import exact_claims, trained_claims
from fedsgt import theory
from fedsgt.plans import Plan, make
from fedsgt.plans.scoring.scores import horizon, uniform_live

SHOWN = 40  # requests


def cells(settings: Settings) -> list[Cell]:
    exact = [Cell(f"exact-{groups}", {"groups": groups}, f"exact-{groups}") for groups in settings["sizes"]]
    keys = ("groups", "streams", "requests")
    trained = [
        Cell(
            name(task, partition, plan),
            {"task": task, "partition": partition, "plan": plan} | {key: settings[key] for key in keys},
            task,
        )
        for task in settings.tasks
        for partition in settings.partitions
        for plan in PLANS
    ]
    return [*trained, *exact]


def measure(settings: Settings, cell: Cell, seed: int, work: Path) -> dict[str, Any]:
    if cell.name.startswith("exact-"):
        return _exact(cell.about["groups"], seed)
    about, bench = cell.about, Bench(work)
    run = bench.config(
        about["task"], seed, "fedsgt", about["partition"], overrides(about["plan"], about["groups"])
    )
    trained = bench.trained(run).predict_all()
    drawn = streams("slice", trained.records(), about["streams"], about["requests"], seed)
    curves = {strategy: unlearning_curve(trained, drawn, strategy) for strategy in ("all", "long")}
    found = simulated(longest(trained.plan.sequences), trained.groups_of, drawn)
    return {
        "curves": {
            strategy: [None if value is None else round(value, 5) for value in curve["accuracy"]]
            for strategy, curve in curves.items()
        },
        "alive": found["alive"],
        "live": rounded(value / trained.plan.groups for value in found["live"]),
        "withstood": found["rate"] - 1,
        "passes": trained.plan.passes,
        "modules": len(trained.plan.modules),
        "settings": described(run),
    }


def overrides(plan: str, groups: int) -> list[str]:
    """Return the overrides for a run with this plan; equal cost is that of all rotations."""
    cost = float(theory.passes(groups, groups))
    own = {
        "rotations": ["plan.kind=rotations", f"plan.budget={groups}"],
        "tree": ["plan.kind=tree", "plan.budget="],
        "tree-cost": ["plan.kind=tree", "plan.budget=", f"plan.passes={cost}"],
        "greedy-cost": ["plan.kind=greedy", "plan.budget=", f"plan.passes={cost}"],
    }
    return [f"grouping.groups={groups}", *own[plan]]


def _exact(groups: int, seed: int) -> dict[str, Any]:
    """Return scores by exact sums; the seed matters for the search for a tree alone."""
    cost = float(theory.passes(groups, groups))
    base = make("rotations", groups)
    plans = {
        "rotations": base,
        "tree": make("tree", groups, seed=seed),
        "tree-cost": make("tree", groups, passes=cost, seed=seed),
        "greedy-cost": make("greedy", groups, passes=cost),
        "greedy": _greedy_of_equal_service(base),
    }
    return {kind: _scored(plan, base) for kind, plan in plans.items()}


def _greedy_of_equal_service(base: Plan) -> Plan:
    """Return the greedy plan of the fewest orders that serves at least as well as rotations throughout."""
    groups = base.groups
    orders = make("greedy", groups, 2 * groups).sequences
    plans = (Plan.of("greedy", groups, orders[:count]) for count in range(groups, len(orders) + 1))
    return next(
        plan for plan in plans if plan.deletion_rate() >= base.deletion_rate() and not _below(plan, base)
    )


def _below(plan: Plan, base: Plan) -> list[int]:
    """Return the numbers of requests after which the plan is expected to have less live data."""
    return [count for count in range(SHOWN + 1) if uniform_live(plan, count) < uniform_live(base, count)]


def _scored(plan: Plan, base: Plan) -> dict[str, Any]:
    live = plan.expected_live(list(range(SHOWN + 1)))
    return {
        "passes": plan.passes,
        "modules": len(plan.modules),
        "sequences": len(plan.sequences),
        "live": rounded(value / plan.groups for value in live),
        "mean_live": float(np.mean(plan.expected_live(list(horizon(plan.groups))))),
        "rate": plan.deletion_rate(),
        "below": _below(plan, base),
    }


def report(settings: Settings, results: Results) -> Report:
    sizes = [groups for groups in settings["sizes"] if results.cells.get(f"exact-{groups}")]
    pairs = [(task, partition) for task in settings.tasks for partition in settings.partitions]
    found = {
        pair: shared
        for pair in pairs
        if (shared := common(results, [name(*pair, plan) for plan in PLANS])) is not None
    }
    plots = [
        Plot(
            f"{task.replace('/', '-')}-{partition}",
            f"{task}, {PARTITIONS[partition]}, L={settings['groups']}: accuracy of the streams still served, "
            "by AllSeq (left) and LongSeq (middle), and live data (right).",
            _drawer(shared, task, partition),
        )
        for (task, partition), shared in found.items()
    ]
    if sizes:
        caption = (
            "Expected live data by exact score; the tree at equal service and the rotations fall together."
        )
        plots.insert(0, Plot("exact", caption, lambda file: draw_exact(file, results, sizes)))
    tables = [exact_table(results, sizes)] if sizes else []
    tables += [
        table for pair, shared in found.items() for table in trained_tables(shared, *pair, settings["groups"])
    ]
    claims = [claim for groups in sizes for claim in exact_claims(results, groups)]
    for pair, shared in found.items():
        claims += trained_claims(shared, *pair, settings["groups"])
    return Report(tables, plots, claims)


def _drawer(results: Results, task: str, partition: str) -> Any:
    return lambda file: draw_trained(file, results, task, partition)
