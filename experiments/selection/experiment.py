"""Which sequences answer: AllSeq, MinSeq, LongSeq and `merged` under deletions (the paper's Takeaway 5)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from experiments.harness.bench import Bench, Prefix, Trained, described
from experiments.harness.plots import band, bars, figure
from experiments.harness.report import Claim, Plot, Report, Table, verdict
from experiments.harness.requests import Stream, deaths, streams
from experiments.harness.results import Cell, Results
from experiments.harness.settings import Settings
from experiments.harness.statistics import difference, mean_of
from experiments.training.experiment import PARTITIONS

from fedsgt.build.evaluate import Accuracy, Examiner, agreement_of, mixed
from fedsgt.build.holders import load_test
from fedsgt.plans.selection import choose, live_prefix, select
from fedsgt.unlearning.predictor import Predictor

STRATEGIES = {"all": "AllSeq", "min": "MinSeq", "long": "LongSeq"}
WAYS = STRATEGIES | {"merged": "merged"}
CLOSE = 0.03  # what we take "similar" to mean, as a difference of accuracies
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


def name(task: str, partition: str) -> str:
    return f"{task.replace('/', '-')}-{partition}"


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
    """Accuracy and its scatter: over streams after each number of requests, and from one to the next."""
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
    """How many a prediction takes, where there is one."""
    counts = [len(select(strategy, run.plan.sequences, dead)) for dead in column]
    return _mean([count or None for count in counts])


def _steps(row: Sequence[float | None]) -> Iterator[tuple[float, float]]:
    """What was served right before and right after a request."""
    for one, two in pairwise(row):
        if one is not None and two is not None:
            yield one, two


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _merged(settings: Settings, run: Trained, asked: Sequence[Stream]) -> dict[str, dict[str, Any]]:
    """By number of requests: accuracy of one averaged model and of AllSeq, and how often they agree."""
    rows = [list(deaths(stream, run.groups_of)) for stream in asked]
    wanted = {number: [row[number] for row in rows] for number in settings["merged_after"]}
    test = load_test(run.folder.config, run.folder.description.labels)
    count = min(settings["merged_records"], len(test))
    known: dict[Dead, tuple[float, float, float]] = {}
    found: dict[str, dict[str, Any]] = {}
    with Examiner(run.folder, test.take(range(count))) as examiner:
        for number, column in wanted.items():
            for dead in set(column) - known.keys():
                compared = _compared(examiner, run, dead, count)
                if compared is not None:
                    known[dead] = compared
            numbers = [known[dead] for dead in column if dead in known]
            if numbers:
                accuracy, other, agreement = (float(np.mean(values)) for values in zip(*numbers, strict=True))
                found[str(number)] = {"accuracy": accuracy, "all": other, "agreement": agreement}
    return found


def _compared(examiner: Examiner, run: Trained, dead: Dead, count: int) -> tuple[float, float, float] | None:
    """Accuracies of the merged model and of AllSeq on the same records, and their agreement."""
    prefixes: list[Prefix] = [live_prefix(order, dead) for order in run.plan.sequences]
    merged = examiner.merged(run.folder.live(), prefixes)
    if merged is None:
        return None
    chosen = choose("all", prefixes)
    whole = mixed((weight, run.predicted[prefix][:count]) for _, prefix, weight in chosen)
    labels = run.labels[:count]
    accuracies = [Accuracy.of(said, labels).accuracy for said in (merged, whole)]
    return accuracies[0], accuracies[1], agreement_of(merged, whole)


def _milliseconds(run: Trained, count: int) -> dict[str, float]:
    """CPU time of a record on the serve path, nothing deleted, in the batches that it makes itself."""
    test = load_test(run.folder.config, run.folder.description.labels)
    contents, found = test.contents[:count], {}
    for strategy in WAYS:
        predictor = Predictor(run.folder, strategy)
        predictor.predict(contents[:1])  # modules are read once
        started = time.process_time()
        predictor.predict(contents)
        found[strategy] = 1000 * (time.process_time() - started) / len(contents)
    return found


def report(settings: Settings, results: Results) -> Report:
    shown = [
        (task, partition)
        for task in settings.tasks
        for partition in settings.partitions
        if results.cells.get(name(task, partition))
    ]
    tables = [
        _scatter(settings, results, shown),
        _merged_table(settings, results, shown),
        _cost(settings, results, shown),
    ]
    plots = [Plot(name(*pair), _caption(*pair), _drawer(results, *pair)) for pair in shown]
    claims = [claim for pair in shown for claim in _claims(settings, results, *pair)]
    return Report(tables if shown else [], plots, claims)


def _values(results: Results, task: str, partition: str, *path: str | int) -> list[float]:
    """None if a seed was exhausted too early to say."""
    values = results.values(name(task, partition), *path)
    return [] if None in values else values


def _shown(values: Sequence[float], scale: float = 100, digits: int = 1) -> str:
    return mean_of(values).text(scale, digits) if values else "-"


def _scatter(settings: Settings, results: Results, shown: list[tuple[str, str]]) -> Table:
    rows = []
    for pair in shown:
        for strategy, words in STRATEGIES.items():
            own = [
                _shown(_values(results, *pair, "strategies", strategy, what), digits=2)
                for what in ("mean", "mean_spread", "step")
            ]
            rows.append([pair[0], PARTITIONS[pair[1]], words, *own])
    return Table(
        f"After 1 to {settings['until']} requests, in percentage points: accuracy, standard deviation over "
        "streams, mean change from one request to the next",
        ("task", "partition", "strategy", "accuracy", "over streams", "from request to request"),
        rows,
    )


def _merged_at(results: Results, pair: tuple[str, str], number: int, what: str) -> list[float]:
    """Of the seeds that are still served then."""
    found = [entry["merged"].get(str(number)) for _, entry in results.seeds(name(*pair))]
    return [entry[what] for entry in found if entry is not None]


def _merged_table(settings: Settings, results: Results, shown: list[tuple[str, str]]) -> Table:
    rows = []
    for pair in shown:
        for number in settings["merged_after"]:
            accuracy, other = (_merged_at(results, pair, number, what) for what in ("accuracy", "all"))
            if accuracy:
                agreement = _shown(_merged_at(results, pair, number, "agreement"))
                gap = difference(accuracy, other).text()
                rows.append(
                    [
                        pair[0],
                        PARTITIONS[pair[1]],
                        str(number),
                        _shown(accuracy),
                        _shown(other),
                        gap,
                        agreement,
                    ]
                )
    return Table(
        f"One merged model and AllSeq on the same test records ({settings['merged_records']}), in percent",
        ("task", "partition", "requests", "merged", "AllSeq", "difference", "same answer"),
        rows,
    )


def _cost(settings: Settings, results: Results, shown: list[tuple[str, str]]) -> Table:
    rows = []
    for pair in shown:
        for way, words in WAYS.items():
            row = [
                pair[0],
                PARTITIONS[pair[1]],
                words,
                _shown(_values(results, *pair, "milliseconds", way), 1, 2),
            ]
            for number in (0, 5, 10):
                merged = way == "merged" or number > settings["requests"]
                values = [] if merged else _values(results, *pair, "strategies", way, "chains", number)
                row.append("1" if way == "merged" else _shown(values, 1))
            rows.append(row)
    head = (f"chains after {number} requests" for number in (0, 5, 10))
    return Table(
        "Cost of a prediction: CPU milliseconds of a record (nothing deleted), and module chains evaluated",
        ("task", "partition", "strategy", "ms", *head),
        rows,
    )


def _claims(settings: Settings, results: Results, task: str, partition: str) -> list[Claim]:
    where, pair = f"{task}, {PARTITIONS[partition]}", (task, partition)
    mean, spread = (
        {way: _values(results, *pair, "strategies", way, what) for way in STRATEGIES}
        for what in ("mean", "mean_spread")
    )
    claims = []
    for way in ("min", "long"):
        if mean[way] and mean["all"]:
            gap = difference(mean[way], mean["all"])
            text = f"{where}: {STRATEGIES[way]} within 3 points of AllSeq on average"
            claims.append(
                Claim(text, "similar means (a figure)", f"{gap.text()} points", verdict(gap, equal=CLOSE))
            )
    for way in ("all", "min"):
        if spread["long"] and spread[way]:
            gap = difference(spread["long"], spread[way])
            text = f"{where}: LongSeq varies more than {STRATEGIES[way]} over streams"
            ours = f"standard deviation {gap.text(digits=2)} points larger"
            claims.append(Claim(text, "LongSeq has the largest variance (a figure)", ours, verdict(gap)))
    return [*claims, *_merged_claims(results, pair, where)]


def _merged_claims(results: Results, pair: tuple[str, str], where: str) -> list[Claim]:
    """Ours: the paper has no merged model."""
    accuracy, other = (_merged_at(results, pair, 0, what) for what in ("accuracy", "all"))
    if not accuracy:
        return []
    gap = difference(accuracy, other)
    times = [_values(results, *pair, "milliseconds", way) for way in ("all", "merged")]
    saved = mean_of([one / two for one, two in zip(*times, strict=True)])
    return [
        Claim(f"{where}: the merged model within 3 points of AllSeq before deletions", "not in the paper",
              f"{gap.text()} points", verdict(gap, equal=CLOSE)),
        Claim(f"{where}: AllSeq costs more than the merged model", "not in the paper",
              f"{saved.text(1)} times its CPU time", verdict(saved, least=1.0)),
    ]  # fmt: skip


def _caption(task: str, partition: str) -> str:
    return (
        f"{task}, {PARTITIONS[partition]}: accuracy of the streams still served, its standard deviation over "
        "streams, and the CPU time of a prediction."
    )


def _drawer(results: Results, task: str, partition: str) -> Any:
    cell = name(task, partition)

    def draw(file: Path) -> None:
        with figure(file, 3) as panels:
            for axes, what in zip(panels, ("accuracy", "spread"), strict=False):
                for number, (way, words) in enumerate(STRATEGIES.items()):
                    band(axes, results.values(cell, "strategies", way, what), words, number)
                axes.set_xlabel("requests")
            panels[0].set_ylabel("accuracy")
            panels[0].legend()
            panels[1].set_ylabel("standard deviation over streams")
            times = {"CPU time": [mean_of(results.values(cell, "milliseconds", way)) for way in WAYS]}
            bars(panels[2], list(WAYS.values()), times)
            panels[2].set_ylabel("CPU milliseconds of a record")

    return draw
