"""Heads solved from statistics and windows, beside the paper's schedule and the bare backbone alone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.beyond.answers import HEADS, Answers, State
from experiments.beyond.features import Features
from experiments.beyond.shown import claims, draw_costs, draw_depths, draw_streams, tables
from experiments.harness.bench import Bench, Trained, described
from experiments.harness.live import rounded
from experiments.harness.names import name
from experiments.harness.report import Plot, Report
from experiments.harness.requests import streams
from experiments.harness.results import Cell, Results
from experiments.harness.settings import Settings
from fedsgt.config import to_toml

KINDS = ("slice", "client")
NOT_COMPARED = ("seeds", "share")


def cells(settings: Settings) -> list[Cell]:
    keys = ("streams", "requests")
    return [
        Cell(
            name(task, partition, compared.replace(" ", "-")),
            {"task": task, "partition": partition, "compared": compared, "overrides": overrides}
            | {"share": settings["compared"][task].get("share", 1.0)}
            | {key: settings[key] for key in keys},
            lane=name(task, partition, compared),  # no store is shared
            seeds=settings["compared"][task]["seeds"],
        )
        for task in settings.tasks
        for partition in settings.partitions
        for compared, overrides in settings["compared"].get(task, {}).items()
        if compared not in NOT_COMPARED
    ]


def measure(settings: Settings, cell: Cell, seed: int, work: Path) -> dict[str, Any]:
    about, bench = cell.about, Bench(work)
    # Statistics are made here, of all records in every state, and not by the run.
    run = bench.config(about["task"], seed, "fedsgt", about["partition"], about["overrides"], shared=False)
    trained = bench.trained(run)
    code = hashlib.sha256(to_toml(run).encode()).hexdigest()[:16]
    answers = Answers(Features(trained.folder, work / "features" / code, about["share"]))
    asked = {
        "slice": streams("slice", trained.records(), about["streams"], about["requests"], seed),
        # The last client is left.
        "client": streams("client", trained.records(), about["streams"], len(trained.records()) - 1, seed),
    }
    states = {kind: [list(answers.states(stream)) for stream in asked[kind]] for kind in KINDS}
    met = {
        prefix for rows in states.values() for row in rows for state in row for prefix in answers.live(state)
    }
    answers.features.compute(sorted({(), *met}))
    return {
        "curves": {kind: _curves(answers, states[kind]) for kind in KINDS},
        "depths": answers.by_depth(sorted(met - {()})),
        "cost": _cost(trained, answers, states["slice"]),
        "settings": described(trained.folder.config),
    }


def _curves(answers: Answers, states: Sequence[Sequence[State]]) -> dict[str, list[list[float]]]:
    """Return a row for each stream, by heads: the accuracy after no request, after one, and so on."""
    known: dict[State, dict[str, float]] = {}
    for row in states:
        for state in row:
            if state not in known:
                known[state] = answers.accuracies(state)
    return {heads: [rounded(known[state][heads] for state in row) for row in states] for heads in HEADS}


def _cost(run: Trained, answers: Answers, states: Sequence[Sequence[State]]) -> dict[str, Any]:
    """Return passes of training, forward passes of statistics, and the sizes of what is kept."""
    # Made by `heads.when = "serve"` before any request: the chains that serve, and the bare backbone.
    serving = {prefix for prefix in answers.live(states[0][0]) if prefix}
    backbone, chain = (answers.features.chain(prefix).train.shape[1] for prefix in ((), min(serving)))
    later = {prefix for row in states for state in row for prefix in answers.live(state) if prefix} - serving
    return {
        "passes": run.plan.with_window(run.folder.config.training.window).passes,
        "modules": len(run.plan.modules),
        "statistics_at_build": len(run.plan.modules) + 1,
        "statistics_at_serve": len(serving) + 1,
        "chains_met_later": len(later),
        "width": chain,
        "backbone_width": backbone,
        "module_bytes": int(np.median([_size(run, key) for key in run.folder.description.keys.values()])),
    }


def _size(run: Trained, key: str) -> int:
    return sum(array.nbytes for array in run.folder.modules.get(key).values())


def report(settings: Settings, results: Results) -> Report:
    shown = [cell for cell in cells(settings) if cell.name in results.cells]
    if not shown:
        return Report()
    tasks = list(dict.fromkeys(cell.about["task"] for cell in shown))
    plots = [
        plot
        for task in tasks
        for plot in (
            Plot(
                f"{task}-streams", f"{task}: accuracy after each request", draw_streams(results, shown, task)
            ),
            Plot(
                f"{task}-depths",
                f"{task}: accuracy of single chains by their depth, before any request",
                draw_depths(results, shown, task),
            ),
        )
    ]
    plots.append(
        Plot(
            "costs",
            "Mean accuracy over the requests against what was paid for it",
            draw_costs(results, shown),
        )
    )
    return Report(tables(results, shown), plots, claims(results, shown))
