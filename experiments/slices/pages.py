"""Tables, claims and pictures of the number of slices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.harness.names import PARTITIONS, name
from experiments.harness.plots import COLOURS, figure
from experiments.harness.report import Claim, Table, verdict
from experiments.harness.results import Results
from experiments.harness.settings import Settings
from experiments.harness.statistics import Mean, difference, mean_of
from experiments.harness.verdicts import together
from fedsgt import theory

CLOSE = 0.03  # what we take "a minor effect" to mean, as a difference of accuracies


def values(results: Results, task: str, partition: str, slices: int, *path: str | int) -> list[Any]:
    return results.values(name(task, partition, f"s{slices}"), *path)


def foretold(results: Results, task: str, partition: str, slices: int) -> dict[str, float]:
    """Return the closed forms over all groupings: service under each kind of request, a client's rounds."""
    where = name(task, partition, f"s{slices}")
    clients = int(results.values(where, "settings", "data", "clients")[0])
    groups = int(results.values(where, "settings", "grouping", "groups")[0])
    return {
        "slice": float(theory.requests_survived(groups, groups)),
        "client": float(theory.deletion_rate_clients(clients, slices, groups, groups)) - 1,
        "rounds": float(theory.client_rounds_balanced(clients, slices, groups)),
    }


def tables(settings: Settings, results: Results, task: str, partition: str) -> list[Table]:
    rows = []
    for slices in settings["slices"]:
        at = (results, task, partition, slices)
        forms = foretold(*at)
        same = [
            one == other
            for one, other in zip(
                values(*at, "clients"),
                values(results, task, partition, max(settings["slices"]), "clients"),
                strict=True,
            )
        ]
        rows.append(
            [
                str(slices),
                *(mean_of(values(*at, "accuracy", strategy)).text() for strategy in ("all", "long")),
                mean_of(values(*at, "skew", "labels")).text(1, 2),
                mean_of(values(*at, "skew", "sizes")).text(1, 2),
                *(
                    f"{mean_of(values(*at, 'withstood', kind)).text(1)} ({forms[kind]:.1f})"
                    for kind in ("slice", "client")
                ),
                f"{mean_of(values(*at, 'rounds')).text(1)} ({forms['rounds']:.1f})",
                f"{sum(same)} of {len(same)}",
            ]
        )
    head = (
        "S",
        "AllSeq",
        "LongSeq",
        "label skew of groups",
        "size skew",
        "withstood, one slice",
        "withstood, whole clients",
        "rounds",
        f"seeds with the partition of S={max(settings['slices'])}",
    )
    title = f"{task}, {PARTITIONS[partition]}: accuracy in percent of {settings['budget']} sequences"
    return [Table(f"{title}; closed forms in parentheses", head, rows)]


def claims(settings: Settings, results: Results, task: str, partition: str) -> list[Claim]:
    where, least, most = f"{task}, {PARTITIONS[partition]}", min(settings["slices"]), max(settings["slices"])

    def gap(one: int, other: int, *path: str) -> Mean:
        return difference(*(values(results, task, partition, slices, *path) for slices in (one, other)))

    above = {
        slices: gap(slices, least, "accuracy", "all") for slices in settings["slices"] if slices != least
    }
    shown = ", ".join(f"S={slices} {mean.text()}" for slices, mean in above.items())
    fewer = gap(least, most, "withstood", "client")
    return [
        *_accuracy_claims(where, partition, above, shown, least, most),
        Claim(
            f"{where}: more slices mix groups better (label skew, S={least} minus S={most}) (ours)",
            "the reason that it gives",
            gap(least, most, "skew", "labels").text(1, 3),
            verdict(gap(least, most, "skew", "labels")),
        ),
        Claim(
            f"{where}: a client takes part in more rounds with S={most} than with S={least}",
            "higher participation",
            f"{gap(most, least, 'rounds').text(1)} rounds more",
            verdict(gap(most, least, "rounds")),
        ),
        Claim(
            f"{where}: more slices withstand fewer whole clients (S={least} minus S={most}) (ours)",
            "not considered",
            f"{fewer.text(1)} clients fewer withstood",
            verdict(fewer),
        ),
    ]


def _accuracy_claims(
    where: str, partition: str, above: dict[int, Mean], shown: str, least: int, most: int
) -> list[Claim]:
    if partition == "iid":
        text = f"{where}: slices matter little (within 3 points of S={least})"
        said = "only a minor effect (a picture)"
        return [Claim(text, said, f"{shown} points", together(list(above.values()), equal=CLOSE))]
    text = f"{where}: more slices give better accuracy (S={most} above S={least})"
    said = "substantially improve accuracy (a picture)"
    return [Claim(text, said, f"{shown} points against S={least}", verdict(above[most]))]


def draw(file: Path, settings: Settings, results: Results, task: str, partition: str) -> None:
    sizes = settings["slices"]
    forms = {slices: foretold(results, task, partition, slices) for slices in sizes}

    def line(axes: Any, number: int, label: str, *path: str) -> None:
        means = [mean_of(values(results, task, partition, slices, *path)) for slices in sizes]
        errors = [0 if mean.count < 2 else mean.half for mean in means]
        heights = [mean.value for mean in means]
        axes.errorbar(places, heights, errors, fmt="o-", color=COLOURS[number], label=label, capsize=2)

    def form(axes: Any, number: int, what: str) -> None:
        axes.plot(
            places, [forms[slices][what] for slices in sizes], "--", color=COLOURS[number], linewidth=0.9
        )

    places = list(range(len(sizes)))
    with figure(file, 3, width=3.8) as (left, middle, right):
        line(left, 0, "AllSeq", "accuracy", "all")
        line(left, 1, "LongSeq", "accuracy", "long")
        for number, (kind, shown) in enumerate((("slice", "within one slice"), ("client", "whole clients"))):
            line(middle, number, shown, "withstood", kind)
            form(middle, number, kind)
        line(right, 0, "mean of clients", "rounds")
        form(right, 0, "rounds")
        left.set_ylabel("accuracy after training")
        middle.set_ylabel("requests withstood")
        right.set_ylabel("rounds of a client")
        for axes in (left, middle, right):
            axes.set_xticks(places, [str(slices) for slices in sizes])
            axes.set_xlabel("slices a client, S")
            axes.legend(fontsize=7)
