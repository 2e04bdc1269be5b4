"""Number of slices a client: accuracy, service and rounds (the paper's Figures 10 and 11)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from experiments.harness.bench import Bench, Trained, described
from experiments.harness.common import common
from experiments.harness.live import longest, simulated
from experiments.harness.names import PARTITIONS, name
from experiments.harness.report import Plot, Report
from experiments.harness.requests import streams
from experiments.harness.results import Cell, Results
from experiments.harness.settings import HERE, Settings
from experiments.slices.pages import claims, draw, tables
from fedsgt.config import load
from fedsgt.plans import rotations
from fedsgt.runs.records import load_clients


def cells(settings: Settings) -> list[Cell]:
    keys = ("budget", "streams", "requests")
    return [
        Cell(
            name(task, partition, f"s{slices}"),
            {"task": task, "partition": partition, "slices": slices} | {key: settings[key] for key in keys},
            task,
        )
        for task in settings.tasks
        for partition in settings.partitions
        for slices in settings["slices"]
    ]


def measure(settings: Settings, cell: Cell, seed: int, work: Path) -> dict[str, Any]:
    about, bench = cell.about, Bench(work)
    slices, budget = about["slices"], about["budget"]
    own = [f"grouping.slices={slices}", f"plan.budget={budget}"]
    # The base run has these rotations among its own.
    overrides = [] if slices == _base_slices(about["task"]) else own
    run = bench.config(about["task"], seed, "fedsgt", about["partition"], overrides)
    trained = bench.trained(run)
    chosen = rotations(trained.plan.groups, budget).sequences
    absent = set(chosen) - set(trained.plan.sequences)
    assert not absent, f"{sorted(absent)} are not sequences of the run"
    return {
        "accuracy": {strategy: trained.accuracy((), strategy, chosen) for strategy in ("all", "long")},
        "clients": [sum(sizes) for sizes in trained.records()],
        "empty": sum(not size for sizes in trained.records() for size in sizes),
        "skew": _skew(trained),
        "settings": described(run),
    } | _service(trained, about["streams"], about["requests"], seed)


def _base_slices(task: str) -> int | list[int]:
    return load(HERE / "tasks" / f"{task}.toml").grouping.slices


def _service(trained: Trained, count: int, length: int, seed: int) -> dict[str, Any]:
    """Return the requests withstood and a client's rounds if all rotations were trained, by the grouping."""
    plan, records = rotations(trained.plan.groups), trained.records()
    withstood = {}
    for kind, most in (("slice", length), ("client", len(records))):
        drawn = streams(kind, records, count, most, seed)
        withstood[kind] = simulated(longest(plan.sequences), trained.groups_of, drawn)["rate"] - 1
    counts = trained.folder.description.grouping_made().counts()
    rounds = plan.client_rounds(counts)
    return {
        "withstood": withstood,
        "rounds": float(rounds.mean()),
        "most_rounds": int(rounds.max()),
        "joined": float((counts > 0).sum(axis=1).mean()),
    }


def _skew(trained: Trained) -> dict[str, float]:
    """Return the differences between groups: in labels (total variation) and in size (deviation)."""
    labels, groups = trained.folder.description.labels, trained.plan.groups
    table = np.zeros((groups, labels))
    for client, of_slices in zip(load_clients(trained.folder.config).local, trained.groups_of, strict=True):
        for part, group in zip(client.cut(), of_slices, strict=True):
            for record in part:
                table[group, record.label or 0] += 1
    sizes, whole = table.sum(axis=1), table.sum(axis=0) / table.sum()
    shares = table / np.maximum(sizes, 1)[:, None]
    return {
        "labels": round(float(np.abs(shares - whole).sum(axis=1).mean() / 2), 5),
        "sizes": round(float(sizes.std() / sizes.mean()), 5),
    }


def report(settings: Settings, results: Results) -> Report:
    pairs = [(task, partition) for task in settings.tasks for partition in settings.partitions]
    found = {
        pair: shared
        for pair in pairs
        if (shared := common(results, [name(*pair, f"s{slices}") for slices in settings["slices"]]))
    }
    plots = [
        Plot(
            f"{task.replace('/', '-')}-{partition}",
            f"{task}, {PARTITIONS[partition]}, by slices a client: accuracy after training (left), requests "
            "withstood within one slice and by whole clients (middle; dashed by closed form), rounds of a "
            "client (right; dashed by closed form).",
            _drawer(settings, shared, task, partition),
        )
        for (task, partition), shared in found.items()
    ]
    return Report(
        [table for pair, shared in found.items() for table in tables(settings, shared, *pair)],
        plots,
        [claim for pair, shared in found.items() for claim in claims(settings, shared, *pair)],
    )


def _drawer(settings: Settings, results: Results, task: str, partition: str) -> Any:
    return lambda file: draw(file, settings, results, task, partition)
