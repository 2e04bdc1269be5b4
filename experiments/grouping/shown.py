"""Tables, claims and pictures of the groupings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.harness.names import PARTITIONS, name
from experiments.harness.plots import band, bars, figure
from experiments.harness.report import Claim, Table, verdict
from experiments.harness.results import Results
from experiments.harness.settings import Settings
from experiments.harness.statistics import Mean, difference, mean_of

METHODS = {"random": "random", "bac": "BAC", "centered": "centered", "affinity": "affinity"}
KINDS = {"slice": "records of one slice", "burst": "bursts of one client"}
CLOSE = 0.03  # what we take "very similar" to mean, as a difference of accuracies
Pair = tuple[str, str]
Found = dict[Pair, Results]


def _unlearning(results: Results, pair: Pair, method: str, kind: str, until: int) -> list[float]:
    curves = results.values(name(*pair, method), "curves", kind, "accuracy")
    known = [[value for value in curve[: until + 1] if value is not None] for curve in curves]
    return [mean_of(values).value for values in known]


def accuracies(settings: Settings, found: Found) -> Table:
    rows, until = [], settings["until"]
    for pair, results in found.items():
        for method, words in METHODS.items():
            cell = name(*pair, method)
            numbers = [results.values(cell, key) for key in ("accuracy", "sequence", "one_group")]
            numbers += [_unlearning(results, pair, method, kind, until) for kind in KINDS]
            rows.append(
                [pair[0], PARTITIONS[pair[1]], words, *(mean_of(values).text() for values in numbers)]
            )
    head = (
        "AllSeq of three",
        "one sequence",
        "one group",
        *(f"along {until} requests, {kind}" for kind in KINDS.values()),
    )
    title = "Accuracy in percent; along requests, of the streams that are still served"
    return Table(title, ("task", "partition", "grouping", *head), rows)


def groups(found: Found) -> Table:
    rows = []
    for pair, results in found.items():
        for method, words in METHODS.items():
            cell = name(*pair, method)
            row = [
                mean_of(results.values(cell, "seconds")).text(1, 3),
                mean_of(results.values(cell, "grouping_seconds")).text(1000, 2),
                mean_of(results.values(cell, "objective")).text(1, 3),
                *(mean_of(results.values(cell, "bursts", key)).text(1, 2) for key in (*KINDS, "groups_hit")),
            ]
            rows.append([pair[0], PARTITIONS[pair[1]], words, *row])
    head = (
        "CPU seconds in all", "CPU ms without embedding", "Eq. 1", "rate, slice requests", "rate, bursts",
        "groups hit by a burst",
    )  # fmt: skip
    title = "Time of grouping, distance of group means from the global mean, request that ends the service"
    return Table(title, ("task", "partition", "grouping", *head), rows)


def claims(settings: Settings, results: Results, pair: Pair) -> list[Claim]:
    where, until = f"{pair[0]}, {PARTITIONS[pair[1]]}", settings["until"]

    def gap(one: str, other: str, *path: str) -> Mean:
        return difference(results.values(name(*pair, one), *path), results.values(name(*pair, other), *path))

    equal, cost = gap("bac", "random", "accuracy"), gap("bac", "random", "seconds")
    along = difference(*(_unlearning(results, pair, method, "slice", until) for method in ("bac", "random")))
    times = [mean_of(results.values(name(*pair, method), "seconds")) for method in ("bac", "random")]
    price, bursts = gap("affinity", "random", "accuracy"), gap("affinity", "random", "bursts", "burst")
    ours = "ours; the paper names the idea"
    return [
        Claim(f"{where}: BAC within 3 points of random after training", "very similar (a bar chart)",
              f"{equal.text()} points", verdict(equal, equal=CLOSE)),
        Claim(f"{where}: BAC within 3 points of random over {until} requests", "similar curves (a figure)",
              f"{along.text()} points", verdict(along, equal=CLOSE)),
        Claim(f"{where}: BAC takes longer to group", "102 s against 8 s",
              f"{times[0].text(1, 2)} against {times[1].text(1, 4)} CPU seconds", verdict(cost)),
        _objective_claim(where, "BAC", gap("random", "bac", "objective")),
        _objective_claim(where, "centered", gap("random", "centered", "objective")),
        Claim(f"{where}: affinity withstands more requests in bursts than random", ours,
              f"{bursts.text(1)} more requests", verdict(bursts)),
        Claim(f"{where}: affinity within 3 points of random after training", "not in the paper",
              f"{price.text()} points", verdict(price, equal=CLOSE)),
    ]  # fmt: skip


def _objective_claim(where: str, words: str, less: Mean) -> Claim:
    text = f"{where}: {words} brings group means closer to the global mean than random (Eq. 1)"
    return Claim(text, "by design; no number", f"Eq. 1 lower by {less.text(1, 3)}", verdict(less))


def caption(task: str, partition: str) -> str:
    return (
        f"{task}, {PARTITIONS[partition]}: accuracy of three sequences along requests (of the streams still "
        "served), and the mean number of the request that ends the service with as many sequences as groups."
    )


def drawer(results: Results, task: str, partition: str) -> Any:
    def draw(file: Path) -> None:
        with figure(file, 3) as panels:
            for axes, (kind, words) in zip(panels, KINDS.items(), strict=False):
                for number, (method, shown) in enumerate(METHODS.items()):
                    cell = name(task, partition, method)
                    band(axes, results.values(cell, "curves", kind, "accuracy"), shown, number)
                axes.set_title(words)
                axes.set_xlabel("requests")
                axes.set_ylabel("accuracy")
            panels[0].legend()
            bars(panels[2], list(METHODS.values()), _rates(results, task, partition))
            panels[2].set_ylabel("request that ends the service")
            panels[2].legend()

    return draw


def _rates(results: Results, task: str, partition: str) -> dict[str, Sequence[Mean]]:
    return {
        words: [mean_of(results.values(name(task, partition, method), "bursts", kind)) for method in METHODS]
        for kind, words in KINDS.items()
    }
