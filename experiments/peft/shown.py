"""Tables, claims and pictures of the kinds of PEFT."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.harness.curves import chance
from experiments.harness.names import PARTITIONS, name
from experiments.harness.plots import band, figure
from experiments.harness.report import Claim, Table, verdict
from experiments.harness.results import Results
from experiments.harness.settings import Settings
from experiments.harness.statistics import Mean, difference, mean_of

KINDS = {"lora": "LoRA", "prefix": "Prefix", "ia3": "IA3"}
FINAL = {"lora": 0.938, "prefix": 0.935, "ia3": 0.932}  # the paper's accuracies
HOURS = {"lora": 4.62, "prefix": 5.57, "ia3": 5.38}  # and its times of a sequence
CLOSE = 0.03  # what we take "comparable" to mean, as a difference of accuracies
LEARNT = 0.05  # above chance at the least, for a claim about scatter
Pair = tuple[str, str]
Found = dict[Pair, Results]


def _final(results: Results, pair: Pair, kind: str, depth: int = -1) -> list[float]:
    """Return the mean accuracy over the orders, after the last module or after another one."""
    curves = results.values(name(*pair, kind), "curves")
    return [mean_of([curve[depth] for curve in orders]).value for orders in curves]


def _scatter(results: Results, pair: Pair, kind: str) -> list[float]:
    """Return the standard deviation over the orders, averaged over the first half of the depths."""
    found = []
    for orders in results.values(name(*pair, kind), "curves"):
        table = np.array(orders)[:, : max(1, len(orders[0]) // 2)]
        found.append(float(table.std(axis=0, ddof=1).mean()))
    return found


def _near_chance(results: Results, pair: Pair, kind: str) -> bool:
    """Whether a kind has learnt next to nothing, so that its little scatter says nothing about orders."""
    guessed = chance(results.values(name(*pair, kind))[0])
    return mean_of(_final(results, pair, kind)).value < guessed + LEARNT


def _unlearning(results: Results, pair: Pair, kind: str, until: int) -> list[float]:
    curves = results.values(name(*pair, kind), "unlearning", "accuracy")
    known = [[value for value in curve[: until + 1] if value is not None] for curve in curves]
    return [mean_of(values).value for values in known]


def accuracies(found: Found) -> Table:
    rows = []
    for pair, results in found.items():
        for kind, words in KINDS.items():
            numbers = [
                mean_of(values).text()
                for values in (
                    _final(results, pair, kind, 0),
                    _final(results, pair, kind),
                    results.values(name(*pair, kind), "accuracy"),
                    _scatter(results, pair, kind),
                )
            ]
            size = results.values(name(*pair, kind), "parameters")[0]
            rows.append(
                [pair[0], PARTITIONS[pair[1]], words, *numbers, f"{100 * FINAL[kind]:.1f}", f"{size:,}"]
            )
    head = (
        "after one module",
        "after all",
        "AllSeq of three",
        "over orders, first half",
        "the paper, after all",
    )
    title = "Accuracy in percent: mean of three orders, their average as served, and their standard deviation"
    return Table(title, ("task", "partition", "kind", *head, "numbers in a module, with the head"), rows)


def times(found: Found) -> Table:
    rows = []
    for pair, results in found.items():
        base = results.values(name(*pair, "lora"), "sequence_seconds")
        for kind, words in KINDS.items():
            own = results.values(name(*pair, kind), "sequence_seconds")
            ratio = _ratio(own, base).text(1, 2)
            theirs = f"{HOURS[kind]} h, {HOURS[kind] / HOURS['lora']:.2f}"
            rows.append([pair[0], PARTITIONS[pair[1]], words, mean_of(own).text(1), ratio, theirs])
    head = ("task", "partition", "kind", "CPU seconds", "against LoRA", "the paper, against LoRA")
    return Table("Training time of one sequence", head, rows)


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> Mean:
    return mean_of([one / other for one, other in zip(ours, theirs, strict=True)])


def claims(settings: Settings, results: Results, pair: Pair) -> list[Claim]:
    claims: list[Claim] = []
    for kind in ("prefix", "ia3"):
        claims += _accuracy_claims(settings, results, pair, kind)
        claims.append(_time_claim(results, pair, kind))
    return claims


def _accuracy_claims(settings: Settings, results: Results, pair: Pair, kind: str) -> list[Claim]:
    where, words = f"{pair[0]}, {PARTITIONS[pair[1]]}", KINDS[kind]
    gap = difference(_final(results, pair, "lora"), _final(results, pair, kind))
    calm = difference(_scatter(results, pair, "lora"), _scatter(results, pair, kind))
    first = difference(_final(results, pair, kind, 0), _final(results, pair, "lora", 0))
    until = settings["until"]
    both = [_unlearning(results, pair, one, until) for one in ("lora", kind)]
    later = difference(both[0], both[1])
    said, ahead = f"0.938 against {FINAL[kind]}", "LoRA {} points ahead".format
    lower = f"standard deviation over orders {calm.text()} points lower"
    near, far = verdict(gap, equal=CLOSE), verdict(later, equal=CLOSE)
    return [
        Claim(f"{where}: {words} within 3 points of LoRA after all modules", said, ahead(gap.text()), near),
        Claim(f"{where}: LoRA more accurate than {words} in the end", said, ahead(gap.text()), verdict(gap)),
        Claim(
            f"{where}: {words} more stable than LoRA in early phases",
            "smoother (a figure)",
            lower + (" (near chance)" if _near_chance(results, pair, kind) else ""),
            "not decided" if _near_chance(results, pair, kind) else verdict(calm),
        ),
        Claim(
            f"{where}: {words} within 3 points of LoRA over {until} requests",
            "close throughout (a figure)",
            ahead(later.text()),
            far,
        ),
        Claim(
            f"{where}: {words} better than LoRA when one group is left",
            "slightly better (a figure)",
            f"{first.text()} points",
            verdict(first),
        ),
    ]


def _time_claim(results: Results, pair: Pair, kind: str) -> Claim:
    times = [results.values(name(*pair, one), "sequence_seconds") for one in (kind, "lora")]
    ratio = _ratio(*times)
    said = f"{HOURS[kind]} h against 4.62 h a sequence, {HOURS[kind] / HOURS['lora']:.2f} times"
    text = f"{pair[0]}, {PARTITIONS[pair[1]]}: {KINDS[kind]} takes longer than LoRA"
    return Claim(text, said, f"{ratio.text(1, 2)} times", verdict(ratio, least=1.0))


def caption(task: str, partition: str) -> str:
    return (
        f"{task}, {PARTITIONS[partition]}: accuracy by number of modules (mean of three orders), its "
        "standard deviation over the orders, and accuracy along requests, of the streams still served."
    )


def drawer(results: Results, task: str, partition: str) -> Any:
    def draw(file: Path) -> None:
        with figure(file, 3) as panels:
            for number, (kind, words) in enumerate(KINDS.items()):
                cell = name(task, partition, kind)
                tables = [np.array(orders) for orders in results.values(cell, "curves")]
                band(panels[0], [[None, *table.mean(axis=0)] for table in tables], words, number)
                band(panels[1], [[None, *table.std(axis=0, ddof=1)] for table in tables], words, number)
                band(panels[2], results.values(cell, "unlearning", "accuracy"), words, number)
            labels = ("accuracy", "standard deviation over orders", "accuracy")
            for axes, label in zip(panels, labels, strict=True):
                axes.set_ylabel(label)
                axes.set_xlabel("modules")
                axes.locator_params(axis="x", integer=True)
            panels[2].set_xlabel("requests")
            panels[0].legend()

    return draw
