"""Tables, claims and pictures of forgetting."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.harness.names import PARTITIONS, name
from experiments.harness.plots import bars, figure
from experiments.harness.report import Claim, Table, verdict
from experiments.harness.results import Results
from experiments.harness.statistics import Mean, mean_of
from experiments.harness.verdicts import exactly

SYSTEMS = {"fedsgt": "FedSGT", "fedretrain": "FedRetrain"}
ATTACKS = ("loss threshold", "LiRA")
CHANCE, NEAR = 0.5, 0.05  # a mean AUC that is within this of chance says nothing of a record
Pair = tuple[str, str]


def _auc(results: Results, cell: str, attack: str, when: str) -> list[float]:
    """Return the AUC of each seed; None where nothing is served."""
    found = results.values(cell, "attacks", attack, when)
    return [case["auc"]["value"] for case in found if case is not None]


def _drop(results: Results, cell: str, attack: str) -> list[float]:
    found = results.values(cell, "attacks", attack, "drop")
    return [interval["value"] for interval in found if interval is not None]


def _inside(results: Results, cell: str, attack: str) -> str:
    """Return the number of seeds in which the attack's own interval contains chance."""
    cases = [case["auc"] for case in results.values(cell, "attacks", attack, "after") if case is not None]
    return f"{sum(case['low'] <= CHANCE <= case['high'] for case in cases)} of {len(cases)}"


def _text(values: list[float], scale: float = 1, digits: int = 3) -> str:
    return mean_of(values).text(scale, digits) if values else "-"


def tables(found: Mapping[Pair, Results]) -> list[Table]:
    return [_attacks(found), _exactness(found)]


def _attacks(found: Mapping[Pair, Results]) -> Table:
    rows = []
    for pair, results in found.items():
        for system, words in SYSTEMS.items():
            cell = name(*pair, system)
            for attack in ATTACKS:
                numbers = [_auc(results, cell, attack, when) for when in ("before", "after")]
                texts = [_text(values) for values in (*numbers, _drop(results, cell, attack))]
                attacked = _text(
                    [float(value) for value in results.values(cell, "attacks", attack, "deleted")], 1, 0
                )
                rows.append([pair[0], words, attack, attacked, *texts, _inside(results, cell, attack)])
    head = (
        "task",
        "system",
        "attack",
        "records",
        "before",
        "after",
        "drop",
        "seeds with 0.5 in the interval after",
    )
    return Table("AUC of membership inference on deleted records", head, rows)


def _exactness(found: Mapping[Pair, Results]) -> Table:
    rows = []
    for pair, results in found.items():
        for system, words in SYSTEMS.items():
            cell = name(*pair, system)
            accuracy = [
                _text([v for v in _accuracy(results, cell, when) if v is not None], 100, 1) for when in WHEN
            ]
            verified = [_verified(results, cell, when) for when in ("after", "retrained")]
            caught = results.values(cell, "control", "caught")
            control = f"{sum(caught)} of {len(caught)} caught"
            rows.append([pair[0], words, *accuracy, *verified, control])
    head = (
        "accuracy before",
        "after the deletion",
        "retrained",
        "verified after the deletion",
        "verified retrained",
    )
    return Table(
        "Accuracy in percent, and modules built again, bit for bit",
        ("task", "system", *head, "control"),
        rows,
    )


WHEN = ("before", "after", "retrained")


def _accuracy(results: Results, cell: str, when: str) -> list[float | None]:
    return [entry["accuracy"].get(when) for _, entry in results.seeds(cell)]


def _verified(results: Results, cell: str, when: str) -> str:
    """Return the number of modules that are the same, out of those that serve, over all seeds."""
    found = [entry["verified"].get(when) for _, entry in results.seeds(cell)]
    known = [told for told in found if told is not None]
    same = sum(told["counts"].get("same", 0) for told in known)
    return f"{same} of {sum(told['served'] for told in known)} modules" if known else "-"


def claims(results: Results, pair: Pair) -> list[Claim]:
    found = []
    for system, words in SYSTEMS.items():
        cell, where = name(*pair, system), f"{pair[0]}, {words}"
        for attack in ATTACKS:
            found += _attack_claims(results, cell, attack, where)
        found += _exact_claims(results, cell, where)
    return found


def _attack_claims(results: Results, cell: str, attack: str, where: str) -> list[Claim]:
    before, after = (mean_of(_auc(results, cell, attack, when)) for when in ("before", "after"))
    said = "not measured: exact by construction"
    text = f"{where}: {attack} finds deleted records in what was served before (AUC above 0.5)"
    claims = [Claim(text, said, before.text(1, 3), verdict(_less(before), least=0.0))]
    if after.count:
        text = f"{where}: {attack} is within {NEAR} of chance over seeds after the deletion"
        claims.append(Claim(text, said, after.text(1, 3), verdict(_less(after), equal=NEAR)))
    return claims


def _less(mean: Mean) -> Mean:
    return Mean(mean.value - CHANCE, mean.half, mean.count)


def _exact_claims(results: Results, cell: str, where: str) -> list[Claim]:
    checks = [told for entry in results.values(cell, "verified") for told in entry.values()]
    passed = [told["passed"] and told["served"] > 0 for told in checks]
    caught = results.values(cell, "control", "caught")
    clean = [not problems for problems in results.values(cell, "audit")]
    exact = Claim(
        f"{where}: every served module is bit for bit that of retained data",
        "claimed, by construction",
        f"{sum(passed)} of {len(passed)} verifications",
        exactly(all(passed)),
    )
    return [
        *([exact] if passed else []),
        Claim(f"{where}: no file that depends on deleted data is left", "not in the paper",
              f"{sum(clean)} of {len(clean)} audits", exactly(all(clean))),
        Claim(f"{where}: a module that keeps the deleted records is caught", "not in the paper",
              f"{sum(caught)} of {len(caught)}", exactly(all(caught))),
    ]  # fmt: skip


def caption(task: str, partition: str) -> str:
    return (
        f"{task}, {PARTITIONS[partition]}: AUC of attacks on deleted records, before the deletion and after"
        " (FedRetrain: after retraining). 0.5 is chance."
    )


def drawer(results: Results, task: str, partition: str) -> Any:
    def draw(file: Path) -> None:
        with figure(file, len(ATTACKS)) as panels:
            for axes, attack in zip(panels, ATTACKS, strict=True):
                cells = [name(task, partition, system) for system in SYSTEMS]
                series = {
                    when: [mean_of(_auc(results, cell, attack, when)) for cell in cells]
                    for when in ("before", "after")
                }
                bars(axes, list(SYSTEMS.values()), series)
                axes.axhline(CHANCE, color="#555555", linewidth=0.8, linestyle=":")
                axes.set_ylim(0.3, 1)
                axes.set_title(attack)
                axes.set_ylabel("AUC")
            panels[0].legend(loc="upper right")

    return draw
