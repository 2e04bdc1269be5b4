"""Random, BAC, centered and affinity grouping: accuracy, unlearning, time (the paper's appendix on grouping)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.harness.bench import Bench, Trained, described
from experiments.harness.common import common
from experiments.harness.curves import unlearning_curve
from experiments.harness.live import longest, simulated
from experiments.harness.plots import band, bars, figure
from experiments.harness.report import Claim, Plot, Report, Table, verdict
from experiments.harness.requests import BURST, deaths, streams
from experiments.harness.results import Cell, Results
from experiments.harness.settings import Settings
from experiments.harness.statistics import Mean, difference, mean_of
from experiments.training.experiment import PARTITIONS
from fedsgt import grouping
from fedsgt.build.holders import load_holdings
from fedsgt.build.prepare import slice_embeddings
from fedsgt.config import Run
from fedsgt.grouping.make import LOOK_AT_DATA
from fedsgt.plans.cyclic import rotations
from fedsgt.stack.backbone import load_backbone
from fedsgt.stack.inputs import make_inputs
from fedsgt.stack.stack import Stack

METHODS = {"random": "random", "bac": "BAC", "centered": "centered", "affinity": "affinity"}
KINDS = {"slice": "records of one slice", "burst": "bursts of one client"}
CLOSE = 0.03  # what we take "very similar" to mean, as a difference of accuracies
REPEATS = 5


def cells(settings: Settings) -> list[Cell]:
    keys = ("budget", "streams", "requests", "simulated", "longest")
    return [
        Cell(
            name(task, partition, method),
            {"task": task, "partition": partition, "method": method} | {key: settings[key] for key in keys},
            task,
        )
        for task, partition, method in product(settings.tasks, settings.partitions, METHODS)
    ]


def name(task: str, partition: str, method: str) -> str:
    return f"{task.replace('/', '-')}-{partition}-{method}"


def measure(settings: Settings, cell: Cell, seed: int, work: Path) -> dict[str, Any]:
    about, bench = cell.about, Bench(work)
    fewer = [] if about["method"] == "random" else [f"plan.budget={about['budget']}"]
    own = [f"grouping.method={about['method']}", *fewer]
    config = bench.config(about["task"], seed, "fedsgt", about["partition"], own)
    run = bench.trained(config).predict_all()
    orders = rotations(config.grouping.groups, about["budget"]).sequences
    curves = {
        kind: unlearning_curve(
            run, streams(kind, run.records(), settings["streams"], settings["requests"], seed), sequences=orders
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
    """Requests until nothing is live, failing one counted, with as many rotations as groups; by groups alone."""
    count, length, groups = settings["simulated"], settings["longest"], run.folder.description.groups
    score = longest(rotations(groups).sequences)
    found = {}
    for kind in KINDS:
        drawn = streams(kind, run.records(), count, length, seed)
        outcome = simulated(score, run.groups_of, drawn)
        if outcome["alive"][-1]:
            raise ValueError(f"streams of {length} requests are too short to end the service")
        found[kind] = outcome["rate"]
    ends = [list(deaths(stream[:BURST], run.groups_of))[-1] for stream in drawn]  # of bursts, the last kind
    return found | {"groups_hit": float(np.mean([len(dead) for dead in ends]))}


def _grouped(config: Run, run: Trained) -> dict[str, float]:
    """CPU seconds of embedding all slices and of grouping them, and how good the groups are (Eq. 1)."""
    started = time.process_time()
    embeddings = _embeddings(config)
    embedding = time.process_time() - started
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
    return {"grouping_seconds": seconds, "seconds": seconds + looked, "objective": grouping.objective(made, embeddings)}


def _embeddings(config: Run) -> NDArray[np.float64]:
    held = load_holdings(config)
    backbone = load_backbone(config.model.backbone, config.model.task, held.labels)
    return slice_embeddings(held, Stack(backbone, config.peft), make_inputs(config.model, backbone))


def _related(config: Run, embeddings: NDArray[np.float64]) -> dict[str, Any]:
    """As the package does: clients keep to few groups, or slices are told apart by what is in them."""
    if config.grouping.method == "affinity":
        return {"clusters": range(config.data.clients)}
    return {"embeddings": embeddings} if config.grouping.method in LOOK_AT_DATA else {}


def report(settings: Settings, results: Results) -> Report:
    compared = {
        pair: common(results, [name(*pair, method) for method in METHODS])
        for pair in product(settings.tasks, settings.partitions)
    }
    found = {pair: own for pair, own in compared.items() if own is not None}
    tables = [_accuracies(settings, found), _groups(found)] if found else []
    plots = [Plot(name(*pair, "curves"), _caption(*pair), _drawer(own, *pair)) for pair, own in found.items()]
    return Report(tables, plots, [claim for pair, own in found.items() for claim in _claims(settings, own, pair)])


Pair = tuple[str, str]
Found = dict[Pair, Results]


def _unlearning(results: Results, pair: Pair, method: str, kind: str, until: int) -> list[float]:
    curves = results.values(name(*pair, method), "curves", kind, "accuracy")
    known = [[value for value in curve[: until + 1] if value is not None] for curve in curves]
    return [mean_of(values).value for values in known]


def _accuracies(settings: Settings, found: Found) -> Table:
    rows, until = [], settings["until"]
    for pair, results in found.items():
        for method, words in METHODS.items():
            cell = name(*pair, method)
            numbers = [results.values(cell, key) for key in ("accuracy", "sequence", "one_group")]
            numbers += [_unlearning(results, pair, method, kind, until) for kind in KINDS]
            rows.append([pair[0], PARTITIONS[pair[1]], words, *(mean_of(values).text() for values in numbers)])
    head = ("AllSeq of three", "one sequence", "one group", *(f"along {until} requests, {kind}" for kind in KINDS.values()))
    return Table("Accuracy in percent", ("task", "partition", "grouping", *head), rows)


def _groups(found: Found) -> Table:
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
    title = "Grouping: its time, how far group means are from the global one, and the request that ends the service"
    return Table(title, ("task", "partition", "grouping", *head), rows)


def _claims(settings: Settings, results: Results, pair: Pair) -> list[Claim]:
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
        *(_objective_claim(where, METHODS[method], gap("random", method, "objective")) for method in ("bac", "centered")),
        Claim(f"{where}: affinity withstands more requests in bursts than random", ours,
              f"{bursts.text(1)} more requests", verdict(bursts)),
        Claim(f"{where}: affinity within 3 points of random after training", "not in the paper",
              f"{price.text()} points", verdict(price, equal=CLOSE)),
    ]  # fmt: skip


def _objective_claim(where: str, words: str, less: Mean) -> Claim:
    text = f"{where}: {words} brings group means closer to the global mean than random (Eq. 1)"
    return Claim(text, "by design; no number", f"Eq. 1 lower by {less.text(1, 3)}", verdict(less))


def _caption(task: str, partition: str) -> str:
    return (
        f"{task}, {PARTITIONS[partition]}: accuracy of three sequences along requests (of the streams still "
        "served), and the mean number of the request that ends the service with as many sequences as groups."
    )


def _drawer(results: Results, task: str, partition: str) -> Any:
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
