"""Tables, claims and pictures of the ways to select sequences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.harness.names import PARTITIONS, name
from experiments.harness.plots import band, bars, figure
from experiments.harness.report import Claim, Table, verdict
from experiments.harness.results import Results
from experiments.harness.settings import Settings
from experiments.harness.statistics import difference, mean_of

STRATEGIES = {"all": "AllSeq", "min": "MinSeq", "long": "LongSeq"}
WAYS = STRATEGIES | {"merged": "merged"}
SCATTER = 5  # requests after which the merged model's scatter is compared
CLOSE = 0.03  # what we take "similar" to mean, as a difference of accuracies


def _values(results: Results, task: str, partition: str, *path: str | int) -> list[float]:
    """Return the value of each seed; None if a seed was exhausted too early."""
    values = results.values(name(task, partition), *path)
    return [] if None in values else values


def _shown(values: Sequence[float], scale: float = 100, digits: int = 1) -> str:
    return mean_of(values).text(scale, digits) if values else "-"


def scatter(settings: Settings, results: Results, shown: list[tuple[str, str]]) -> Table:
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
    """Return the values of the seeds that are still served after so many requests."""
    found = [entry["merged"].get(str(number)) for _, entry in results.seeds(name(*pair))]
    return [entry[what] for entry in found if entry is not None]


def merged_table(settings: Settings, results: Results, shown: list[tuple[str, str]]) -> Table:
    rows = []
    for pair in shown:
        for number in settings["merged_after"]:
            accuracy, other = (_merged_at(results, pair, number, what) for what in ("accuracy", "all"))
            if accuracy:
                more = [
                    _shown(_merged_at(results, pair, number, what))
                    for what in ("agreement", "spread", "all_spread")
                ]
                gap = difference(accuracy, other).text()
                where = (pair[0], PARTITIONS[pair[1]], str(number))
                rows.append([*where, _shown(accuracy), _shown(other), gap, *more])
    return Table(
        f"One merged model and AllSeq on the same test records ({settings['merged_records']}), in percent; "
        "over streams: standard deviation",
        (
            *("task", "partition", "requests", "merged", "AllSeq", "difference", "same answer"),
            *("merged over streams", "AllSeq over streams"),
        ),
        rows,
    )


def cost(settings: Settings, results: Results, shown: list[tuple[str, str]]) -> Table:
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


def claims(settings: Settings, results: Results, task: str, partition: str) -> list[Claim]:
    where, pair = f"{task}, {PARTITIONS[partition]}", (task, partition)
    mean, spread = (
        {way: _values(results, *pair, "strategies", way, what) for way in STRATEGIES}
        for what in ("mean", "mean_spread")
    )
    found = []
    for way in ("min", "long"):
        if mean[way] and mean["all"]:
            gap = difference(mean[way], mean["all"])
            text = f"{where}: {STRATEGIES[way]} within 3 points of AllSeq on average"
            found.append(
                Claim(text, "similar means (a figure)", f"{gap.text()} points", verdict(gap, equal=CLOSE))
            )
    for way in ("all", "min"):
        if spread["long"] and spread[way]:
            gap = difference(spread["long"], spread[way])
            text = f"{where}: LongSeq varies more than {STRATEGIES[way]} over streams"
            ours = f"standard deviation {gap.text(digits=2)} points larger"
            found.append(Claim(text, "LongSeq has the largest variance (a figure)", ours, verdict(gap)))
    return [*found, *_merged_claims(settings, results, pair, where)]


def _merged_claims(settings: Settings, results: Results, pair: tuple[str, str], where: str) -> list[Claim]:
    """Return our own claims about the merged model, which the paper does not have."""
    found = []
    for number in settings["merged_after"]:
        accuracy, other = (_merged_at(results, pair, number, what) for what in ("accuracy", "all"))
        if accuracy:
            gap = difference(accuracy, other)
            text = f"{where}: the merged model within 3 points of AllSeq after {number} requests"
            found.append(Claim(text, "not in the paper", f"{gap.text()} points", verdict(gap, equal=CLOSE)))
    spread = [
        _merged_at(results, pair, SCATTER, what)
        for what in ("spread", "all_spread")
        if SCATTER in settings["merged_after"]
    ]
    if spread and spread[0]:
        gap = difference(*spread)
        text = f"{where}: the merged model varies more than AllSeq over streams, after {SCATTER} requests"
        ours = f"standard deviation {gap.text(digits=2)} points larger"
        found.append(Claim(text, "not in the paper", ours, verdict(gap)))
    times = [_values(results, *pair, "milliseconds", way) for way in ("all", "merged")]
    saved = mean_of([one / two for one, two in zip(*times, strict=True)])
    text = f"{where}: AllSeq costs more than the merged model"
    ours = f"{saved.text(1)} times its CPU time"
    return [*found, Claim(text, "not in the paper", ours, verdict(saved, least=1.0))]


def caption(task: str, partition: str) -> str:
    return (
        f"{task}, {PARTITIONS[partition]}: accuracy of the streams still served, its standard deviation over "
        "streams, and the CPU time of a prediction."
    )


def drawer(results: Results, task: str, partition: str) -> Any:
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
