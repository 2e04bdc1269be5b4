"""Accuracy against deletion requests: FedSGT, FedCIO, FedRetrain (the paper's Figures 6 and 7, and ours)."""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree
from typing import Any

from experiments.harness.bench import Bench, described
from experiments.harness.common import common
from experiments.harness.curves import unlearning_curve
from experiments.harness.deleting import Deleting
from experiments.harness.plots import COLOURS, band, figure
from experiments.harness.report import Claim, Plot, Report, Table, verdict
from experiments.harness.requests import Stream, streams
from experiments.harness.results import Cell, Results
from experiments.harness.settings import Settings
from experiments.harness.statistics import difference, mean_of
from experiments.training.experiment import PARTITIONS, name

SYSTEMS = {"fedsgt": "FedSGT", "fedcio": "FedCIO", "fedretrain": "FedRetrain"}
SPAN = 30
KINDS = {"slice": "records of one slice", "client": "whole clients", "burst": "bursts of one client"}


def cells(settings: Settings) -> list[Cell]:
    def about(task: str, partition: str, system: str) -> dict[str, Any]:
        which = (
            ("retrain_every", "retrain_until")
            if system == "fedretrain"
            else ("streams", "requests", "clients")
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
    length = {"slice": settings["requests"], "client": settings["clients"], "burst": settings["requests"]}
    curves = {
        kind: unlearning_curve(run, streams(kind, run.records(), settings["streams"], length[kind], seed))
        for kind in KINDS
    }
    return {"curves": curves, "groups": run.group_sizes(), "settings": described(run.folder.config)}


def _retrained(settings: Settings, task: str, partition: str, seed: int, bench: Bench) -> dict[str, Any]:
    """FedAvg on the retained data, after every few requests of the first stream; all for real."""
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
    shown = []
    for task, partition in (
        (task, partition) for task in settings.tasks for partition in settings.partitions
    ):
        shared = common(results, [name(task, partition, system) for system in ("fedsgt", "fedcio")])
        if shared is not None:
            results.cells |= shared.cells
            shown.append((task, partition))
    plots = [
        Plot(
            f"{task.replace('/', '-')}-{partition}",
            _caption(task, partition),
            _drawer(results, task, partition),
        )
        for task, partition in shown
    ]
    tables = [_survived(results, shown), _service(results, shown), _accuracies(results, shown)]
    return Report(tables, plots, [claim for pair in shown for claim in _claims(results, *pair)])


def _caption(task: str, partition: str) -> str:
    return (
        f"{task}, {PARTITIONS[partition]}: accuracy of the streams still served (above) and their share "
        "(below), by kind of request."
    )


def _service(results: Results, shown: list[tuple[str, str]]) -> Table:
    """What users get over the time in which FedSGT is expected to serve."""
    rows = []
    for task, partition in shown:
        ours, theirs = (_served(results, task, partition, system) for system in ("fedsgt", "fedcio"))
        means = [mean_of(values).text() for values in (ours, theirs)]
        rows.append([task, PARTITIONS[partition], *means, difference(ours, theirs).text()])
    return Table(
        f"Mean accuracy in percent over requests 0 to {SPAN} about one slice, no service counted as 0",
        ("task", "partition", "FedSGT", "FedCIO", "FedSGT minus FedCIO"),
        rows,
    )


def _served(results: Results, task: str, partition: str, system: str) -> list[float]:
    found = []
    for _, entry in results.seeds(name(task, partition, system)):
        curve = entry["curves"]["slice"]
        pairs = list(zip(curve["accuracy"], curve["alive"], strict=True))[: SPAN + 1]
        found.append(sum((accuracy or 0.0) * alive for accuracy, alive in pairs) / len(pairs))
    return found


def _survived(results: Results, shown: list[tuple[str, str]]) -> Table:
    rows = []
    for task, partition in shown:
        row = [task, PARTITIONS[partition]]
        for kind in KINDS:
            row += [
                mean_of(_survivals(results, task, partition, system, kind)).text(1)
                for system in ("fedsgt", "fedcio")
            ]
        rows.append(row)
    head = [f"{system}, {kind}" for kind in KINDS.values() for system in ("FedSGT", "FedCIO")]
    return Table("Requests withstood", ("task", "partition", *head), rows)


def _survivals(results: Results, task: str, partition: str, system: str, kind: str) -> list[float]:
    cell = name(task, partition, system)
    return [mean_of(values).value for values in results.values(cell, "curves", kind, "survived")]


def _accuracies(results: Results, shown: list[tuple[str, str]]) -> Table:
    rows = []
    for task, partition in shown:
        for number in (0, 5, 10, 20, 30):
            row = [task, PARTITIONS[partition], str(number)]
            for system in ("fedsgt", "fedcio"):
                values = _after(results, task, partition, system, number)
                row.append(mean_of(values).text() if values else "-")
            again = [
                entry["accuracy"].get(str(number))
                for _, entry in results.seeds(name(task, partition, "fedretrain"))
            ]
            known = [value for value in again if value is not None]
            rows.append([*row, mean_of(known).text() if known else "-"])
    return Table(
        "Accuracy in percent after requests about records of one slice (of the streams still served)",
        ("task", "partition", "requests", *SYSTEMS.values()),
        rows,
    )


def _after(results: Results, task: str, partition: str, system: str, number: int) -> list[float]:
    curves = results.values(name(task, partition, system), "curves", "slice", "accuracy")
    values = [curve[number] for curve in curves if number < len(curve)]
    return [value for value in values if value is not None] if None not in values else []


def _claims(results: Results, task: str, partition: str) -> list[Claim]:
    where = f"{task}, {PARTITIONS[partition]}"
    ours, theirs = (_survivals(results, task, partition, system, "slice") for system in ("fedsgt", "fedcio"))
    longer = difference(ours, theirs)
    claims = [
        Claim(
            f"{where}: FedSGT withstands more requests than FedCIO",
            "29.3 against 11.4 expected, failing request counted",
            f"{mean_of(ours).text(1)} against {mean_of(theirs).text(1)}",
            verdict(longer),
        )
    ]
    for number in (5, 10):
        one, other = (_after(results, task, partition, system, number) for system in ("fedsgt", "fedcio"))
        if one and len(one) == len(other):
            gap = difference(one, other)
            said = "FedCIO slightly ahead early" if partition == "iid" else "FedSGT above FedCIO throughout"
            sign = -1 if partition == "iid" and number == 5 else 1
            text = f"{where}: {'FedCIO' if sign < 0 else 'FedSGT'} more accurate after {number} requests"
            signed = difference(other, one) if sign < 0 else gap
            claims.append(Claim(text, said, f"FedSGT minus FedCIO {gap.text()} points", verdict(signed)))
    return claims


def _drawer(results: Results, task: str, partition: str) -> Any:
    def draw(file: Path) -> None:
        with figure(file, len(KINDS), width=3.6, height=2.7, rows=2) as panels:
            for number, (kind, words) in enumerate(KINDS.items()):
                above, below = panels[number], panels[len(KINDS) + number]
                for index, system in enumerate(("fedsgt", "fedcio")):
                    cell = name(task, partition, system)
                    band(above, results.values(cell, "curves", kind, "accuracy"), SYSTEMS[system], index)
                    band(below, results.values(cell, "curves", kind, "alive"), SYSTEMS[system], index)
                above.set_title(words)
                above.set_ylabel("accuracy")
                below.set_ylabel("share still served")
                below.set_xlabel("requests")
                above.set_ylim(0, 1)
                below.set_ylim(0, 1.03)
            _retrain_points(panels[0], results, name(task, partition, "fedretrain"))
            panels[0].legend(fontsize=7)

    return draw


def _retrain_points(axes: Any, results: Results, cell: str) -> None:
    found = [entry["accuracy"] for _, entry in results.seeds(cell)]
    if found:
        numbers = sorted(map(int, found[0]))
        means = [mean_of([entry[str(number)] for entry in found]) for number in numbers]
        axes.errorbar(
            numbers,
            [mean.value for mean in means],
            [0 if mean.count < 2 else mean.half for mean in means],
            fmt="o",
            markersize=3,
            color=COLOURS[2],
            label="FedRetrain",
            linewidth=0.8,
        )
