"""Tables, plots and claims of the experiment on deletion requests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.harness.common import common
from experiments.harness.curves import chance
from experiments.harness.names import PARTITIONS, name
from experiments.harness.plots import COLOURS, band, figure
from experiments.harness.report import Claim, Plot, Report, Table, verdict
from experiments.harness.results import Results
from experiments.harness.settings import Settings
from experiments.harness.statistics import difference, mean_of

SYSTEMS = {"fedsgt": "FedSGT", "fedcio": "FedCIO", "fedretrain": "FedRetrain"}
SPAN, EARLY = 30, 4  # requests
SHOWN = {"slice": 60, "client": 10, "burst": 100}
KINDS = {"slice": "records of one slice", "client": "whole clients", "burst": "bursts of one client"}


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
    tables.append(_clusters(results, shown))
    return Report(tables, plots, [claim for pair in shown for claim in _claims(results, *pair)])


def _caption(task: str, partition: str) -> str:
    return (
        f"{task}, {PARTITIONS[partition]}: accuracy of the streams still served (above) and their share "
        "(below), by kind of request. FedRetrain's points are of the first stream of each seed."
    )


def _clusters(results: Results, shown: list[tuple[str, str]]) -> Table:
    rows = []
    for task, partition in shown:
        sizes = [
            sorted(groups, reverse=True)
            for groups in results.values(name(task, partition, "fedcio"), "groups")
        ]
        rows.append([task, PARTITIONS[partition], "; ".join(" ".join(map(str, seed)) for seed in sizes)])
    return Table("Records of FedCIO's clusters, seed by seed", ("task", "partition", "clusters"), rows)


def _service(results: Results, shown: list[tuple[str, str]]) -> Table:
    """Return the table of the accuracy that users get while FedSGT is expected to serve."""
    rows = []
    for task, partition in shown:
        ours, theirs = (_served(results, task, partition, system) for system in ("fedsgt", "fedcio"))
        means = [mean_of(values).text() for values in (ours, theirs)]
        rows.append([task, PARTITIONS[partition], *means, difference(ours, theirs).text()])
    return Table(
        f"Mean accuracy in percent over requests 0 to {SPAN} about one slice, no service counted as chance",
        ("task", "partition", "FedSGT", "FedCIO", "FedSGT minus FedCIO"),
        rows,
    )


def _served(results: Results, task: str, partition: str, system: str) -> list[float]:
    found = []
    for _, entry in results.seeds(name(task, partition, system)):
        curve = entry["curves"]["slice"]
        pairs = list(zip(curve["accuracy"], curve["alive"], strict=True))[: SPAN + 1]
        guessed = chance(entry)
        served = [(accuracy or 0.0) * alive + guessed * (1 - alive) for accuracy, alive in pairs]
        found.append(sum(served) / len(served))
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
    """Return the claims of Takeaway 2, and that about early requests."""
    where, both = f"{task}, {PARTITIONS[partition]}", ("fedsgt", "fedcio")
    ours, theirs = (_survivals(results, task, partition, system, "slice") for system in both)
    longer = Claim(
        f"{where}: FedSGT withstands more requests than FedCIO",
        "28.3 against 10.4 by its theory, for equal clusters",
        f"{mean_of(ours).text(1)} against {mean_of(theirs).text(1)}",
        verdict(difference(ours, theirs)),
    )
    gap = difference(*(_served(results, task, partition, system) for system in both))
    service = Claim(
        f"{where}: more accurate over requests 0 to {SPAN}, no service counted as chance (ours)",
        "longer service; utility as below",
        f"FedSGT minus FedCIO {gap.text()} points",
        verdict(gap),
    )
    others = [_longer(results, task, partition, kind) for kind in ("client", "burst")]
    return [longer, *others, _early(results, task, partition), service]


def _longer(results: Results, task: str, partition: str, kind: str) -> Claim:
    """Return the claim for requests that hit several groups, which the paper does not look at."""
    ours, theirs = (_survivals(results, task, partition, system, kind) for system in ("fedsgt", "fedcio"))
    return Claim(
        f"{task}, {PARTITIONS[partition]}: FedSGT withstands more requests of {KINDS[kind]} (ours)",
        "no such requests",
        f"{mean_of(ours).text(1)} against {mean_of(theirs).text(1)}",
        verdict(difference(ours, theirs)),
    )


def _early(results: Results, task: str, partition: str) -> Claim:
    """Return the claim about few requests, after which nearly all streams of both are still served."""
    ours, theirs = (_after(results, task, partition, system, EARLY) for system in ("fedsgt", "fedcio"))
    gap = difference(ours, theirs) if ours and theirs else mean_of([])
    if partition == "iid":
        text, said, signed = "FedCIO ahead", "FedCIO slightly ahead early", replace(gap, value=-gap.value)
    else:
        text, said, signed = "FedSGT ahead", "FedSGT above FedCIO throughout", gap
    found = f"FedSGT minus FedCIO {gap.text()} points" if gap.count else "no service in some seed"
    claim = f"{task}, {PARTITIONS[partition]}: {text} after {EARLY} requests, where served"
    return Claim(claim, said, found, verdict(signed))


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
                for axes in (above, below):
                    axes.set_xlim(0, SHOWN[kind])
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
