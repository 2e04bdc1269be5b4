"""Tables, claims and pictures of the number of sequences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.harness.names import PARTITIONS, name
from experiments.harness.plots import COLOURS, band, figure
from experiments.harness.report import Claim, Table
from experiments.harness.results import Results
from experiments.harness.statistics import Mean, difference, mean_of
from experiments.harness.verdicts import together
from fedsgt import theory

CLOSE = 0.02  # what we take "a small margin" to mean, as a difference of accuracies
EARLY = range(1, 11)  # requests
WORDS = {"rotations": "", "spread": ", evenly spread", "first": ", the first", "iterative": ", iterative"}


def labels(results: Results, task: str, partition: str) -> list[str]:
    """Return the labels of all plans that were measured, by budget."""
    found = [
        label
        for kind in ("rotations", "iterative")
        for entry in results.values(name(task, partition, kind), "plans")[:1]
        for label in entry
    ]
    return sorted(found, key=lambda label: (int(label.split("-")[1]), label.startswith("first")))


def values(results: Results, task: str, partition: str, label: str, *path: str | int) -> list[Any]:
    kind = "iterative" if label.startswith("iterative") else "rotations"
    return results.values(name(task, partition, kind), "plans", label, *path)


def words(label: str) -> str:
    kind, budget = label.split("-")
    return f"B={budget}{WORDS[kind]}"


def tables(results: Results, task: str, partition: str) -> list[Table]:
    rows = []
    for label in labels(results, task, partition):
        row = [words(label), f"{values(results, task, partition, label, 'passes')[0]:g}"]
        row += [
            mean_of(values(results, task, partition, label, "accuracy", strategy)).text()
            for strategy in ("all", "long")
        ]
        for number in (5, 10, 20):
            found = _after(results, task, partition, label, number)
            row.append(mean_of(found).text() if found else "-")
        row.append(_early(results, task, partition, label, "live").text())
        row.append(mean_of(values(results, task, partition, label, "withstood")).text(1))
        row.append(f"{_foretold(results, task, partition, label):.1f}")
        rows.append(row)
    after = [f"after {number}" for number in (5, 10, 20)]
    head = ("plan", "passes", "AllSeq", "LongSeq", *after, "live data, 1..10", "withstood", "L·H_B - 1")
    return [
        Table(f"{task}, {PARTITIONS[partition]}: accuracy in percent, by number of sequences", head, rows)
    ]


def _groups(results: Results, task: str, partition: str) -> int:
    return int(results.values(name(task, partition, "rotations"), "settings", "grouping", "groups")[0])


def _foretold(results: Results, task: str, partition: str, label: str) -> float:
    return float(theory.requests_survived(_groups(results, task, partition), int(label.split("-")[1])))


def _after(results: Results, task: str, partition: str, label: str, number: int) -> list[float]:
    """Return AllSeq's accuracy after so many requests, if every seed is still served by some stream."""
    curves = values(results, task, partition, label, "curves", "all", "accuracy")
    found = [curve[number] for curve in curves]
    return [] if None in found else found


def _early(results: Results, task: str, partition: str, label: str, what: str) -> Mean:
    return mean_of(_early_values(results, task, partition, label, what))


def _early_values(results: Results, task: str, partition: str, label: str, what: str) -> list[float]:
    """Return the mean over the first requests, of live data or of a strategy's accuracy, for each seed."""
    path = ("live",) if what == "live" else ("curves", what, "accuracy")
    curves = values(results, task, partition, label, *path)
    found = [[curve[number] for number in EARLY if curve[number] is not None] for curve in curves]
    return [sum(row) / len(row) if row else 0.0 for row in found]


def claims(results: Results, task: str, partition: str) -> list[Claim]:
    base = f"rotations-{_groups(results, task, partition)}"
    known = [label for label in labels(results, task, partition) if not label.startswith("first")]
    fewer, more = ([label for label in known if label.startswith(kind)] for kind in ("spread", "iterative"))

    def gap(one: str, other: str, *path: str) -> Mean:
        ours, theirs = (values(results, task, partition, label, *path) for label in (one, other))
        return difference(ours, theirs)

    where = f"{task}, {PARTITIONS[partition]}"
    stable = {label: gap(label, base, "accuracy", "all") for label in known if label != base}
    steps = [gap(above, below, "withstood") for below, above in zip(fewer, [*fewer[1:], base], strict=True)]
    found = [
        Claim(
            f"{where}: accuracy after training within 2 points of B=L at every budget",
            "within a small margin (a picture)",
            ", ".join(f"{words(label)} {mean.text()}" for label, mean in stable.items()),
            together(list(stable.values()), equal=CLOSE),
        ),
        Claim(
            f"{where}: below L, every larger budget withstands more requests",
            "earlier end of service for B < 10 (a picture); L·H_B",
            ", ".join(
                mean_of(values(results, task, partition, label, "withstood")).text(1)
                for label in [*fewer, base]
            ),
            together(steps),
        ),
        *_offsets(results, task, partition, fewer, where),
    ]
    return found + (_above(results, task, partition, base, more, where) if more else [])


def _above(
    results: Results, task: str, partition: str, base: str, more: list[str], where: str
) -> list[Claim]:
    """Return the claims about sequences beyond the L rotations."""

    def gaps(what: str) -> dict[str, Mean]:
        theirs = _early_values(results, task, partition, base, what)
        return {
            label: difference(_early_values(results, task, partition, label, what), theirs) for label in more
        }

    base_service = values(results, task, partition, base, "withstood")
    longer = [
        difference(values(results, task, partition, label, "withstood"), base_service) for label in more
    ]
    found = [
        Claim(
            f"{where}: from B=L on, service lasts no longer",
            "saturates at B >= 10 (a picture)",
            ", ".join(
                f"{words(label)} {mean.text(1)} requests" for label, mean in zip(more, longer, strict=True)
            ),
            together(longer, equal=0.5),
        )
    ]
    for what, shown in (("all", "AllSeq"), ("long", "LongSeq"), ("live", "live data")):
        means = gaps(what)
        found.append(
            Claim(
                f"{where}: more sequences than groups give more over 1..10 requests: {shown} (ours)",
                "-",
                ", ".join(f"{words(label)} {mean.text()} points" for label, mean in means.items()),
                together(list(means.values())),
            )
        )
    return found


def _offsets(results: Results, task: str, partition: str, fewer: list[str], where: str) -> list[Claim]:
    """Return the claim about evenly spread rotations against the first ones."""
    found = []
    for what, shown in (("all", "AllSeq"), ("long", "LongSeq"), ("live", "live data")):
        means = {
            label: difference(
                _early_values(results, task, partition, label, what),
                _early_values(results, task, partition, label.replace("spread", "first"), what),
            )
            for label in fewer
        }
        found.append(
            Claim(
                f"{where}: evenly spread rotations above the first ones over 1..10 requests: {shown} (ours)",
                "does not say which B",
                ", ".join(
                    f"{words(label).split(',')[0]} {mean.text()} points" for label, mean in means.items()
                ),
                together(list(means.values())),
            )
        )
    return found


def draw(file: Path, results: Results, task: str, partition: str) -> None:
    known = labels(results, task, partition)
    main = [label for label in known if not label.startswith("first")]
    with figure(file, 3, width=4.2) as (left, middle, right):
        for number, strategy in enumerate(("all", "long")):
            means = [mean_of(values(results, task, partition, label, "accuracy", strategy)) for label in main]
            xs = [int(label.split("-")[1]) for label in main]
            errors = [0 if mean.count < 2 else mean.half for mean in means]
            shown = {"all": "AllSeq", "long": "LongSeq"}[strategy]
            left.errorbar(
                xs,
                [mean.value for mean in means],
                errors,
                fmt="o-",
                color=COLOURS[number],
                label=shown,
                capsize=2,
            )
        for label in known:
            number = next(at for at, other in enumerate(main) if other.split("-")[1] == label.split("-")[1])
            first = label.startswith("first")
            style = {"linestyle": "--", "linewidth": 0.9} if first else {}
            curves = values(results, task, partition, label, "curves", "all", "accuracy")
            band(middle, curves, "" if first else words(label).split(",")[0], number, **style)
            if not first:
                alive = values(results, task, partition, label, "curves", "all", "alive")
                band(right, alive, words(label).split(",")[0], number)
        left.set_xlabel("sequences, B")
        left.set_ylabel("accuracy after training")
        middle.set_xlabel("requests")
        middle.set_ylabel("accuracy (AllSeq)")
        right.set_xlabel("requests")
        right.set_ylabel("share still served")
        for axes in (middle, right):
            axes.set_ylim(0, 1.03)
        for axes in (left, middle, right):
            axes.legend(fontsize=7)
