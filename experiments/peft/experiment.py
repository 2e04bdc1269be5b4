"""LoRA, prefix tuning and IA3 as modules: learning, unlearning, time (the paper's appendix on PEFT)."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from shutil import rmtree
from typing import Any

from experiments.harness.bench import Bench, Prefix, Trained, described
from experiments.harness.clock import Clock
from experiments.harness.common import common
from experiments.harness.curves import unlearning_curve
from experiments.harness.names import name
from experiments.harness.report import Plot, Report
from experiments.harness.requests import streams
from experiments.harness.results import Cell, Results
from experiments.harness.settings import Settings
from experiments.peft.shown import KINDS, accuracies, caption, claims, drawer, times
from fedsgt.build.train import train
from fedsgt.plans.cyclic import rotations


def cells(settings: Settings) -> list[Cell]:
    def about(task: str, partition: str, kind: str) -> dict[str, Any]:
        own = {key: settings[key] for key in ("budget", "streams", "requests")}
        return {"task": task, "partition": partition, "kind": kind, "set": _set(settings, task, kind)} | own

    return [
        Cell(name(task, partition, kind), about(task, partition, kind), task)
        for task in settings.tasks
        for partition in settings.partitions
        for kind in KINDS
    ]


def _set(settings: Settings, task: str, kind: str) -> list[str]:
    scale = "paper" if task.startswith("paper/") else "small"
    found: list[str] = [f"peft.kind={kind}", *settings["kinds"][kind][scale]]
    return found


def measure(settings: Settings, cell: Cell, seed: int, work: Path) -> dict[str, Any]:
    about, bench = cell.about, Bench(work)
    chosen = [*about["set"], f"plan.budget={about['budget']}"]
    config = bench.config(about["task"], seed, "fedsgt", about["partition"], chosen)
    run = bench.trained(config).predict_all()
    orders = rotations(config.grouping.groups, about["budget"]).sequences
    asked = streams("slice", run.records(), settings["streams"], settings["requests"], seed)
    return {
        "curves": [_by_depth(run, order) for order in orders],
        "accuracy": run.accuracy(sequences=orders),
        "unlearning": unlearning_curve(run, asked, sequences=orders),
        "parameters": sum(array.size for array in run.folder.modules.get(_first(run)).values()),
        **_timed(about, seed, bench),
        "settings": described(config),
    }


def _by_depth(run: Trained, order: Prefix) -> list[float]:
    """Return the accuracy of the sequence cut after each of its modules."""
    found = [run.accuracy(sequences=[order[:depth]]) for depth in range(1, len(order) + 1)]
    return [accuracy for accuracy in found if accuracy is not None]


def _first(run: Trained) -> str:
    return run.folder.description.keys[run.plan.sequences[0][:1]]


def _timed(about: Any, seed: int, bench: Bench) -> dict[str, float]:
    """Time one sequence trained in a folder of its own: modules in the common store would take no time."""
    more = [*about["set"], "plan.budget=1"]
    config = bench.config(about["task"], seed, "fedsgt", about["partition"], more, shared=False)
    path = bench.work / "timed" / f"{name(about['task'], about['partition'], about['kind'])}-{seed}"
    rmtree(path, ignore_errors=True)
    clock = Clock()
    train(config, path, clock)
    rmtree(path)
    last = clock.events[-1]
    return {"sequence_seconds": last.seconds, "sequence_records": last.records}


def report(settings: Settings, results: Results) -> Report:
    compared = {
        pair: common(results, [name(*pair, kind) for kind in KINDS])
        for pair in product(settings.tasks, settings.partitions)
    }
    found = {pair: own for pair, own in compared.items() if own is not None}
    tables = [accuracies(found), times(found)] if found else []
    plots = [Plot(name(*pair, "curves"), caption(*pair), drawer(own, *pair)) for pair, own in found.items()]
    return Report(
        tables, plots, [claim for pair, own in found.items() for claim in claims(settings, own, pair)]
    )
