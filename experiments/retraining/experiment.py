"""Online, then offline retraining: what is served after each module (the paper's Discussion)."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from shutil import rmtree
from typing import Any

from experiments.harness.bench import Bench, Trained, described
from experiments.harness.clock import Clock, ModuleTime
from experiments.harness.common import common
from experiments.harness.deleting import SHARE, Deleting
from experiments.harness.names import name
from experiments.harness.report import Plot, Report
from experiments.harness.requests import streams
from experiments.harness.results import Cell, Results
from experiments.harness.settings import Settings
from experiments.retraining.shown import SYSTEMS, caption, claims, drawer, tables
from fedsgt.build.train import train
from fedsgt.serving.evaluation import score
from fedsgt.unlearning.unlearn import recover


def cells(settings: Settings) -> list[Cell]:
    def about(task: str, partition: str, system: str) -> dict[str, Any]:
        own = {"requests": settings["requests"], "begins": "trained in its place"}
        return {"task": task, "partition": partition, "system": system, "portion": SHARE} | own

    every = product(settings.tasks, settings.partitions, SYSTEMS)
    return [Cell(name(*which), about(*which), which[0]) for which in every]


def measure(settings: Settings, cell: Cell, seed: int, work: Path) -> dict[str, Any]:
    """Measure a seed of a cell in a folder of its own, which is removed.

    Each system is trained there first, so that what its frozen layers make of the records is known to all of
    them when retraining begins, as in a service.
    """
    about, place = cell.about, work / "retraining" / f"{cell.name}-{seed}"
    rmtree(place, ignore_errors=True)
    config = Bench(place).config(about["task"], seed, about["system"], about["partition"], shared=False)
    run = Trained(train(config, place, Clock()))
    before, total = run.accuracy(), sum(map(sum, run.records()))
    stream = streams("slice", run.records(), 1, about["requests"], seed)[0]
    deleting = Deleting(run)
    deleting.requests(stream)
    dead = run.folder.live().dead
    clock = Clock()
    train(config, place, clock, recover)
    again = deleting.retrain()  # nothing is left to train; no client may have lost more than was asked for
    points = _served(again, dead, clock.events, total)
    rmtree(place)
    return {
        "before": before,
        "points": points,
        "dead": len(dead),
        "groups": run.folder.description.groups,
        **_times(points, again, clock.events),
        "settings": described(config),
    }


def _served(run: Trained, dead: frozenset[int], events: list[ModuleTime], total: int) -> list[dict[str, Any]]:
    """Return the accuracy as served right after the deletions, and then after each module.

    `passes` are over the data as it was before, `accuracy` is none while nothing can be served.
    """
    present = {module.prefix for module in run.plan.modules if dead.isdisjoint(module.prefix)}
    run.predict_all()
    found = [_point(run, present, 0.0, 0.0)]
    for event in events:
        present.add(event.groups)
        found.append(_point(run, present, event.seconds, event.records / total))
    return found


def _point(run: Trained, present: set[tuple[int, ...]], seconds: float, passes: float) -> dict[str, Any]:
    prefixes = [_there(order, present) for order in run.plan.sequences]
    reached = score("all", run.predicted, prefixes, run.labels)
    accuracy = None if reached is None else reached.accuracy
    return {"seconds": round(seconds, 2), "passes": round(passes, 4), "accuracy": accuracy}


def _there(order: tuple[int, ...], present: set[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the part of a sequence that can be served: up to its first missing module."""
    depth = 0
    while depth < len(order) and order[: depth + 1] in present:
        depth += 1
    return order[:depth]


def _times(points: list[dict[str, Any]], run: Trained, events: list[ModuleTime]) -> dict[str, Any]:
    """Return the times at which the first sequence, and all of them, were whole again."""
    whole = set(run.plan.sequences)
    first = next(number for number, event in enumerate(events, start=1) if event.groups in whole)
    return {"online": points[first], "done": points[-1], "at_once": points[0]["accuracy"]}


def report(settings: Settings, results: Results) -> Report:
    compared = {
        pair: common(results, [name(*pair, system) for system in SYSTEMS])
        for pair in product(settings.tasks, settings.partitions)
    }
    found = {pair: own for pair, own in compared.items() if own is not None}
    plots = [Plot(name(*pair, "time"), caption(*pair), drawer(own, *pair)) for pair, own in found.items()]
    said = [claim for pair, own in found.items() for claim in claims(settings, own, pair)]
    return Report(tables(settings, found) if found else [], plots, said)
