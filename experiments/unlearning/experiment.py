"""Accuracy against deletion requests: FedSGT, FedCIO, FedRetrain (the paper's Figures 6 and 7, and ours)."""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree
from typing import Any

from experiments.harness.bench import Bench, described
from experiments.harness.curves import unlearning_curve
from experiments.harness.deleting import Deleting
from experiments.harness.names import name
from experiments.harness.report import Report
from experiments.harness.requests import Stream, streams
from experiments.harness.results import Cell, Results
from experiments.harness.settings import Settings
from experiments.unlearning import shown
from experiments.unlearning.shown import KINDS, SYSTEMS


def cells(settings: Settings) -> list[Cell]:
    def about(task: str, partition: str, system: str) -> dict[str, Any]:
        which = (
            ("retrain_every", "retrain_until")
            if system == "fedretrain"
            else ("streams", "requests", "clients", "burst_requests")
        )
        return {"task": task, "partition": partition, "system": system} | {
            key: settings[key] for key in which
        }

    return [
        Cell(name(task, partition, system), about(task, partition, system), task)
        for task in settings.tasks
        for partition in settings.partitions
        for system in SYSTEMS
    ]


def measure(settings: Settings, cell: Cell, seed: int, work: Path) -> dict[str, Any]:
    about, bench = cell.about, Bench(work)
    if about["system"] == "fedretrain":
        return _retrained(settings, about["task"], about["partition"], seed, bench)
    run = bench.trained(bench.config(about["task"], seed, about["system"], about["partition"]))
    length = {
        "slice": settings["requests"],
        "client": settings["clients"],
        "burst": settings["burst_requests"],
    }
    curves = {
        kind: unlearning_curve(run, streams(kind, run.records(), settings["streams"], length[kind], seed))
        for kind in KINDS
    }
    sizes, slices = run.group_sizes()
    return {"curves": curves, "groups": sizes, "slices": slices, "settings": described(run.folder.config)}


def _retrained(settings: Settings, task: str, partition: str, seed: int, bench: Bench) -> dict[str, Any]:
    """Retrain FedAvg on the retained data after every few requests of the first stream."""
    config = bench.config(task, seed, "fedretrain", partition, shared=False)
    trained = bench.trained(config, anew=True)
    stream: Stream = streams("slice", trained.records(), 1, settings["retrain_until"], seed)[0]
    accuracy, deleting, step = {"0": trained.accuracy()}, Deleting(trained), settings["retrain_every"]
    for start in range(0, len(stream), step):
        deleting.requests(stream[start : start + step])
        accuracy[str(start + step)] = deleting.retrain().accuracy()
    rmtree(trained.folder.path)
    return {"accuracy": accuracy, "settings": described(config)}


def report(settings: Settings, results: Results) -> Report:
    return shown.report(settings, results)
