"""Test accuracy after training: FedSGT, FedAvg and FedCIO, IID and skewed (the paper's Figure 5)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.harness.bench import Bench, described
from experiments.harness.common import common
from experiments.harness.names import PARTITIONS, name
from experiments.harness.plots import band, bars, figure
from experiments.harness.report import Claim, Plot, Report, Table, verdict
from experiments.harness.results import Cell, Results
from experiments.harness.settings import Settings
from experiments.harness.statistics import difference, mean_of

SYSTEMS = {"fedsgt": "FedSGT", "fedavg": "FedAvg", "fedcio": "FedCIO"}
CENTRAL = {"sisa": "SISA", "s3t": "S3T"}  # all records in one place; for reference
CLOSE = 0.03  # what we take "comparable" to mean, as a difference of accuracies


def cells(settings: Settings) -> list[Cell]:
    return [
        Cell(name(task, partition, system), {"task": task, "partition": partition, "system": system}, task)
        for task in settings.tasks
        for partition in settings.partitions
        for system in (*SYSTEMS, *(CENTRAL if partition == "iid" and task in settings["central"] else ()))
    ]


def measure(settings: Settings, cell: Cell, seed: int, work: Path) -> dict[str, Any]:
    about = cell.about
    run = Bench(work).config(about["task"], seed, about["system"], about["partition"])
    trained = Bench(work).trained(run).predict_all()
    sequences = trained.plan.sequences
    depths = range(1, max(map(len, sequences)) + 1)
    curve = [
        mean_of([trained.accuracy((), "all", [order[:depth]]) or 0.0 for order in sequences]).value
        for depth in depths
    ]
    accuracy = {strategy: trained.accuracy((), strategy) for strategy in ("all", "long")}
    sizes = [sum(client) for client in trained.records()]
    return {"accuracy": accuracy, "curve": curve, "clients": sizes, "settings": described(run)}


def report(settings: Settings, results: Results) -> Report:
    found: Found = {}
    for task in settings.tasks:
        for partition in settings.partitions:
            shared = common(results, [name(task, partition, system) for system in SYSTEMS])
            if shared is None:
                continue
            for system in SYSTEMS:
                found[task, partition, system] = shared.values(
                    name(task, partition, system), "accuracy", "all"
                )
    tasks = [
        task
        for task in settings.tasks
        if all((task, part, "fedsgt") in found for part in settings.partitions)
    ]
    tables = [
        Table(
            f"Test accuracy in percent, {PARTITIONS[partition]} (AllSeq)",
            ("task", *SYSTEMS.values(), "FedSGT minus FedAvg", "FedSGT minus FedCIO"),
            [_row(task, partition, found) for task in tasks],
        )
        for partition in settings.partitions
    ]
    central = [_central(results, task) for task in tasks if task in settings["central"]]
    head = ("task", *CENTRAL.values())
    if central:
        title = "Test accuracy in percent of centralised systems, all records in one place"
        tables.append(Table(title, head, central))
    plot = Plot(
        "accuracy",
        "Test accuracy by task, with 95 % intervals over seeds.",
        lambda file: _draw(file, settings, tasks, found),
    )
    depth = Plot(
        "by-depth",
        "FedSGT: accuracy of a sequence by the number of its modules, mean over the ten sequences.",
        lambda file: _draw_depth(file, settings, tasks, results),
    )
    claims = [claim for partition in settings.partitions for claim in _claims(partition, tasks, found)]
    return Report(tables, [plot, depth] if tasks else [], claims)


def _central(results: Results, task: str) -> list[str]:
    found = [results.values(name(task, "iid", system), "accuracy", "all") for system in CENTRAL]
    return [task, *(mean_of(values).text() if values else "-" for values in found)]


Found = dict[tuple[str, str, str], list[float]]


def _row(task: str, partition: str, found: Found) -> list[str]:
    values = [found[task, partition, system] for system in SYSTEMS]
    gaps = [difference(values[0], other).text() for other in values[1:]]
    return [task, *(mean_of(numbers).text() for numbers in values), *gaps]


def _claims(partition: str, tasks: list[str], found: Found) -> list[Claim]:
    """Return the claims of Takeaway 1 for each task: IID FedSGT is not behind, skewed it is above both."""
    claims = []
    for task in tasks:
        ours = found[task, partition, "fedsgt"]
        for system in ("fedavg", "fedcio"):
            gap = difference(ours, found[task, partition, system])
            if partition == "iid":
                text, said = "at most 3 points below", "comparable or even superior (bars without numbers)"
                decided = verdict(gap, least=-CLOSE)
            else:
                text, said = "above", "above (bars without numbers)"
                decided = verdict(gap)
            claim = f"{task}, {PARTITIONS[partition]}: FedSGT {text} {SYSTEMS[system]}"
            claims.append(Claim(claim, said, f"{gap.text()} points", decided))
    return claims


def _draw(file: Path, settings: Settings, tasks: list[str], found: Found) -> None:
    with figure(file, len(settings.partitions), width=5) as panels:
        for axes, partition in zip(panels, settings.partitions, strict=True):
            series = {
                shown: [mean_of(found[task, partition, system]) for task in tasks]
                for system, shown in SYSTEMS.items()
            }
            bars(axes, tasks, series)
            axes.set_title(PARTITIONS[partition])
            axes.set_ylabel("test accuracy")
            axes.set_ylim(0, 1)
        panels[0].legend(loc="upper left", ncols=3)


def _draw_depth(file: Path, settings: Settings, tasks: list[str], results: Results) -> None:
    with figure(file, len(settings.partitions), width=5) as panels:
        for axes, partition in zip(panels, settings.partitions, strict=True):
            for number, task in enumerate(tasks):
                curves = results.values(name(task, partition, "fedsgt"), "curve")
                band(axes, [[None, *curve] for curve in curves], task, number)
            axes.set_title(PARTITIONS[partition])
            axes.set_xlabel("modules")
            axes.set_ylabel("test accuracy")
            axes.set_ylim(0, 1)
        panels[0].legend(loc="upper left", ncols=3)
