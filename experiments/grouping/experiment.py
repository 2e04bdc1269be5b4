"""Random, BAC, centered and affinity grouping: accuracy, unlearning, time (the paper's appendix)."""

from __future__ import annotations

import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.grouping.shown import KINDS, METHODS, accuracies, caption, claims, drawer, groups
from experiments.harness.bench import Bench, Trained, described
from experiments.harness.common import common
from experiments.harness.curves import unlearning_curve
from experiments.harness.live import longest, simulated
from experiments.harness.names import name
from experiments.harness.report import Plot, Report
from experiments.harness.requests import BURST, deaths, streams
from experiments.harness.results import Cell, Results
from experiments.harness.settings import Settings
from experiments.harness.statistics import mean_of
from fedsgt import grouping
from fedsgt.build.group_slices import slice_embeddings
from fedsgt.config import Config
from fedsgt.grouping.make import LOOK_AT_DATA
from fedsgt.plans.cyclic import rotations
from fedsgt.runs.records import load_clients
from fedsgt.stack.model import open_model

REPEATS = 5


def cells(settings: Settings) -> list[Cell]:
    keys = ("budget", "streams", "requests", "simulated", "longest")
    own = {key: settings[key] for key in keys} | {"burst": BURST, "repeats": REPEATS}
    return [
        Cell(
            name(task, partition, method),
            {"task": task, "partition": partition, "method": method} | own,
            task,
        )
        for task, partition, method in product(settings.tasks, settings.partitions, METHODS)
    ]


def measure(settings: Settings, cell: Cell, seed: int, work: Path) -> dict[str, Any]:
    about, bench = cell.about, Bench(work)
    fewer = [] if about["method"] == "random" else [f"plan.budget={about['budget']}"]
    own = [f"grouping.method={about['method']}", *fewer]
    config = bench.config(about["task"], seed, "fedsgt", about["partition"], own)
    run = bench.trained(config).predict_all()
    orders = rotations(config.grouping.groups, about["budget"]).sequences
    curves = {
        kind: unlearning_curve(
            run,
            streams(kind, run.records(), settings["streams"], settings["requests"], seed),
            sequences=orders,
        )
        for kind in KINDS
    }
    final = [run.accuracy(sequences=[order]) for order in orders]
    first = [run.accuracy(sequences=[(group,)]) for group in dict.fromkeys(order[0] for order in orders)]
    return {
        "accuracy": run.accuracy(sequences=orders),
        "sequence": mean_of([value for value in final if value is not None]).value,
        "one_group": mean_of([value for value in first if value is not None]).value,
        "curves": curves,
        "bursts": _simulated(settings, run, seed),
        **_grouped(config, run),
        "settings": described(config),
    }


def _simulated(settings: Settings, run: Trained, seed: int) -> dict[str, float]:
    """Return the request that ends the service, with as many rotations as groups, by the grouping alone."""
    count, length, groups = settings["simulated"], settings["longest"], run.folder.description.groups
    score = longest(rotations(groups).sequences)
    found = {}
    for kind in KINDS:
        drawn = streams(kind, run.records(), count, length, seed)
        found[kind] = simulated(score, run.groups_of, drawn)["rate"]
    ends = [list(deaths(stream[:BURST], run.groups_of))[-1] for stream in drawn]  # of bursts, the last kind
    return found | {"groups_hit": float(np.mean([len(dead) for dead in ends]))}


def _grouped(config: Config, run: Trained) -> dict[str, float]:
    """Return the CPU seconds of embedding all slices and of grouping them, and the objective (Eq. 1)."""
    embeddings, embedding = _embeddings(config)
    settings, related = config.grouping, _related(config, embeddings)
    started = time.process_time()
    for _ in range(REPEATS):
        made = grouping.make(
            settings.method,
            config.slices_per_client(),
            settings.groups,
            limits=settings.limits,
            seed=settings.seed,
            **related,
        )
    seconds = (time.process_time() - started) / REPEATS
    if made.group_of.tolist() != run.folder.description.group_of:
        raise ValueError("the groups that were timed are not those of the run")
    looked = embedding if settings.method in LOOK_AT_DATA else 0.0
    return {
        "grouping_seconds": seconds,
        "seconds": seconds + looked,
        "objective": grouping.objective(made, embeddings),
    }


def _embeddings(config: Config) -> tuple[NDArray[np.float64], float]:
    """Return the slices' embeddings, and the seconds they take once records and backbone are loaded."""
    data = load_clients(config)
    model = open_model(config, data.labels)
    started = time.process_time()
    return slice_embeddings(data, model), time.process_time() - started


def _related(config: Config, embeddings: NDArray[np.float64]) -> dict[str, Any]:
    """Return the further input of a grouping, as the package gives it: clusters or embeddings."""
    if config.grouping.method == "affinity":
        return {"clusters": range(config.client_count())}
    return {"embeddings": embeddings} if config.grouping.method in LOOK_AT_DATA else {}


def report(settings: Settings, results: Results) -> Report:
    compared = {
        pair: common(results, [name(*pair, method) for method in METHODS])
        for pair in product(settings.tasks, settings.partitions)
    }
    found = {pair: own for pair, own in compared.items() if own is not None}
    tables = [accuracies(settings, found), groups(found)] if found else []
    plots = [Plot(name(*pair, "curves"), caption(*pair), drawer(own, *pair)) for pair, own in found.items()]
    return Report(
        tables, plots, [claim for pair, own in found.items() for claim in claims(settings, own, pair)]
    )
