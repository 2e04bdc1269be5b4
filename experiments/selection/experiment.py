"""Selection of sequences: AllSeq, MinSeq, LongSeq, `merged` under deletions (the paper's Takeaway 5)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from experiments.harness.bench import Bench, Prefix, Trained, described
from experiments.harness.names import name
from experiments.harness.report import Plot, Report
from experiments.harness.requests import Stream, deaths, streams
from experiments.harness.results import Cell, Results
from experiments.harness.settings import Settings
from experiments.selection.shown import (
    STRATEGIES,
    WAYS,
    caption,
    claims,
    cost,
    drawer,
    merged_table,
    scatter,
)
from fedsgt.plans.selection import choose, live_prefix, select
from fedsgt.runs.records import load_test
from fedsgt.serving.answer import agreement, mix_known
from fedsgt.serving.evaluation import Accuracy, Evaluator
from fedsgt.serving.predictor import Predictor

Dead = frozenset[int]


def cells(settings: Settings) -> list[Cell]:
    keys = (
        "streams",
        "requests",
        "until",
        "merged_after",
        "merged_streams",
        "merged_records",
        "timed_records",
    )
    return [
        Cell(name(task, part), {"task": task, "partition": part} | {key: settings[key] for key in keys}, task)
        for task in settings.tasks
        for part in settings.partitions
    ]


def measure(settings: Settings, cell: Cell, seed: int, work: Path) -> dict[str, Any]:
    bench = Bench(work)
    run = bench.trained(bench.config(cell.about["task"], seed, "fedsgt", cell.about["partition"]))
    run.predict_all()
    asked = streams("slice", run.records(), settings["streams"], settings["requests"], seed)
    strategies = {strategy: _under(run, asked, strategy, settings["until"]) for strategy in STRATEGIES}
    return {
        "strategies": strategies,
        "merged": _merged(settings, run, asked[: settings["merged_streams"]]),
        "milliseconds": _milliseconds(run, settings["timed_records"]),
        "settings": described(run.folder.config),
    }


def _under(run: Trained, asked: Sequence[Stream], strategy: str, until: int) -> dict[str, Any]:
    """Return accuracy and scatter, over streams after each number of requests and from one to the next."""
    states = [list(deaths(stream, run.groups_of)) for stream in asked]
    known = {dead: run.accuracy(dead, strategy) for row in states for dead in row}
    table = [[known[dead] for dead in row] for row in states]
    columns = [[value for value in column if value is not None] for column in zip(*table, strict=True)]
    curve = [float(np.mean(column)) if column else None for column in columns]
    spread = [float(np.std(column, ddof=1)) if len(column) > 1 else None for column in columns]
    return {
        "accuracy": curve,
        "spread": spread,
        "mean": _mean(curve[1 : until + 1]),
        "mean_spread": _mean(spread[1 : until + 1]),
        "step": _mean([abs(two - one) for row in table for one, two in _steps(row[: until + 1])]),
        "chains": [_chains(run, strategy, column) for column in zip(*states, strict=True)],
    }


def _chains(run: Trained, strategy: str, column: Sequence[Dead]) -> float | None:
    """Return the mean number of chains of a prediction, over the streams that are still served."""
    counts = [len(select(strategy, run.plan.sequences, dead)) for dead in column]
    return _mean([count or None for count in counts])


def _steps(row: Sequence[float | None]) -> Iterator[tuple[float, float]]:
    """Yield the accuracies right before and right after each request."""
    for one, two in pairwise(row):
        if one is not None and two is not None:
            yield one, two


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _merged(settings: Settings, run: Trained, asked: Sequence[Stream]) -> dict[str, dict[str, Any]]:
    """Return the merged model beside AllSeq by number of requests: accuracy, scatter and agreement."""
    rows = [list(deaths(stream, run.groups_of)) for stream in asked]
    wanted = {number: [row[number] for row in rows] for number in settings["merged_after"]}
    test = load_test(run.folder.config, run.folder.description.labels)
    count = min(settings["merged_records"], len(test))
    known: dict[Dead, tuple[float, float, float]] = {}
    found: dict[str, dict[str, Any]] = {}
    with Evaluator(run.folder, replace(test, records=test.records[:count])) as evaluator:
        for number, column in wanted.items():
            for dead in set(column) - known.keys():
                compared = _compared(evaluator, run, dead, count)
                if compared is not None:
                    known[dead] = compared
            numbers = [known[dead] for dead in column if dead in known]
            if numbers:
                merged, other, agreed = zip(*numbers, strict=True)
                found[str(number)] = {
                    "accuracy": float(np.mean(merged)),
                    "all": float(np.mean(other)),
                    "agreement": float(np.mean(agreed)),
                    "spread": float(np.std(merged)),
                    "all_spread": float(np.std(other)),
                }
    return found


def _compared(
    evaluator: Evaluator, run: Trained, dead: Dead, count: int
) -> tuple[float, float, float] | None:
    """Return the accuracies of the merged model and of AllSeq on the same records, and their agreement."""
    prefixes: list[Prefix] = [live_prefix(order, dead) for order in run.plan.sequences]
    merged = evaluator.merged(run.folder.live(), prefixes)
    if merged is None:
        return None
    chosen = choose("all", prefixes)
    whole = mix_known({prefix: run.predicted[prefix][:count] for _, prefix, _ in chosen}, chosen)
    labels = run.labels[:count]
    accuracies = [Accuracy.of(said, labels).accuracy for said in (merged, whole)]
    return accuracies[0], accuracies[1], agreement(merged, whole)


def _milliseconds(run: Trained, count: int) -> dict[str, float]:
    """Return the CPU time of a record when serving, with nothing deleted and batches of the usual size."""
    test = load_test(run.folder.config, run.folder.description.labels)
    records, found = test.records[:count], {}
    for strategy in WAYS:
        predictor = Predictor(run.folder, strategy)
        predictor.predict(records[:1])  # modules are read once
        started = time.process_time()
        predictor.predict(records)
        found[strategy] = 1000 * (time.process_time() - started) / len(records)
    return found


def report(settings: Settings, results: Results) -> Report:
    shown = [
        (task, partition)
        for task in settings.tasks
        for partition in settings.partitions
        if results.cells.get(name(task, partition))
    ]
    tables = [
        scatter(settings, results, shown),
        merged_table(settings, results, shown),
        cost(settings, results, shown),
    ]
    plots = [Plot(name(*pair), caption(*pair), drawer(results, *pair)) for pair in shown]
    said = [claim for pair in shown for claim in claims(settings, results, *pair)]
    return Report(tables if shown else [], plots, said)
