"""Claims about the cost of training: the paper's words, and our measurements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.cost.reading import ROUNDS, SYSTEMS, counted, forms_of, grown, hours_of, matched, ratio
from experiments.harness.report import Claim, verdict
from experiments.harness.results import Results
from experiments.harness.settings import Settings
from experiments.harness.statistics import Mean, difference, mean_of
from experiments.harness.verdicts import exactly

ALIKE = 2.0  # what we take "comparable", "the same order" to be at most: a factor
FORETOLD = 0.2  # how near to the passes a ratio of times must be, as a share


def claims(settings: Settings, results: Results, tasks: list[str]) -> list[Claim]:
    found = [claim for task in tasks for claim in _time_claims(settings, results, task)]
    if results.cells.get("traffic"):
        found += _traffic_claims(settings, results)
    if results.cells.get("federated"):
        found += _federated_claims(results)
    return found


def _time_claims(settings: Settings, results: Results, task: str) -> list[Claim]:
    """Return the claims about time, without that of frozen layers, which is the same for all systems."""
    ours = ratio(settings, results, task, "fedsgt")
    again, clusters = (ratio(settings, results, task, system, "again") for system in ("fedsgt", "fedcio"))
    passes = {system: counted(settings, results, task, system) for system in SYSTEMS}
    expected = passes["fedsgt"] / passes["fedavg"]
    hours = hours_of(task)
    said = f"{hours[2] / hours[0]:.2f} of FedAvg's hours" if hours else "0.6 to 1.0 of FedAvg's hours"
    off = mean_of([factor / expected - 1 for factor in again])
    return [
        Claim(
            f"{task}: FedSGT's training time is comparable to FedAvg's (at most twice)",
            said,
            f"{mean_of(again).text(1, 2)} times FedAvg's time, {mean_of(ours).text(1, 2)} with the frozen "
            f"layers, computed once; passes {expected:.2f}",
            verdict(difference([ALIKE] * len(again), again)),
        ),
        Claim(
            f"{task}: frozen layers known, time goes with passes (ratio to FedAvg within 20 % of theirs)",
            "deviations laid to its simulation environment",
            f"{off.text()} % off",
            verdict(off, equal=FORETOLD),
        ),
        Claim(
            f"{task}: FedCIO's compute matches FedAvg's (within 20 %)",
            "by formula; its table has 0.38 to 0.84 of FedAvg's hours",
            f"{mean_of(clusters).text(1, 2)} times",
            verdict(mean_of([factor - 1 for factor in clusters]), equal=FORETOLD),
        ),
        Claim(
            f"{task}: 18.18 sequences, by its formula, cost as much as FedAvg (within 20 %)",
            "18.18 by its formula, 36 in its text, so that B = 10 costs less",
            f"B = {mean_of(matched(settings, results, task)).text(1, 2)}",
            verdict(mean_of([budget - 18.18 for budget in matched(settings, results, task)]), equal=3.6),
        ),
        *_growth_claim(settings, results, task),
    ]


def _growth_claim(settings: Settings, results: Results, task: str) -> list[Claim]:
    growth, times = grown(settings, results, task, "fedsgt"), settings["records"][0] / settings["records"][-1]
    if times == 1 or not growth.count:
        return []
    off = Mean(growth.value / times - 1, growth.half / times, growth.count)
    text = f"{task}: time is linear in the number of records (within 20 %)"
    ours = f"{growth.text(1, 2)} times for {times:g} times the records"
    return [Claim(text, "by formula", ours, verdict(off, equal=FORETOLD))]


def _traffic_claims(settings: Settings, results: Results) -> list[Claim]:
    found = []
    groups = settings["groups"]
    for slices in settings["slices"]:
        rounds = results.values("traffic", f"S={slices}", "rounds")
        fetched = mean_of(results.values("traffic", f"S={slices}", "fetched")).value
        forms, both = forms_of(settings, slices), 2 * mean_of(rounds).value + fetched
        off = mean_of([count / forms["balanced"] - 1 for count in rounds])
        said = "71.5 rounds" if slices == 2 else f"{forms['paper']:.2f} rounds by its form"
        found += [
            Claim(
                f"S={slices}: rounds of a client as the balanced form has them (within 5 %)",
                said,
                f"{mean_of(rounds).text(1, 2)} against {forms['balanced']:.2f}",
                verdict(off, equal=0.05),
            ),
            Claim(
                f"S={slices}: bandwidth at most twice FedCIO's, if FedCIO sends L modules a round",
                "comparable, as FedCIO sends all L modules",
                f"{both:.0f} modules both ways against {2 * (ROUNDS + 1) * groups}",
                exactly(both <= ALIKE * 2 * (ROUNDS + 1) * groups),
            ),
            Claim(
                f"S={slices}: the same against FedCIO as it is here, with one module (ours)",
                "-",
                f"{both:.0f} modules both ways against {2 * (ROUNDS + 1)}",
                exactly(both <= ALIKE * 2 * (ROUNDS + 1)),
            ),
        ]
    return found


def _federated_claims(results: Results) -> list[Claim]:
    found = results.values("federated")
    entries = [entry for seed in found for entry in seed.values()]
    equal = sum(entry["updates"] == entry["rounds"] for entry in entries)
    over = mean_of([max(_overhead(entry) for entry in seed.values()) for seed in found])
    return [
        Claim(
            "Over Flower a client is asked for as many updates as its plan has rounds",
            "by formula",
            f"{equal} of {len(entries)} trainings",
            exactly(equal == len(entries)),
        ),
        Claim(
            "Over Flower a client's bytes are those of the modules in its plan (within 5 %)",
            "not given",
            f"at most {over.text()} % more",
            verdict(over, equal=0.05),
        ),
    ]


def _overhead(entry: Mapping[str, Any]) -> float:
    """Return the bytes beyond the tensors as a share of the tensors, in the worse direction."""
    return max(float(carried / planned) - 1 for planned, carried in (entry["up"], entry["down"]))
