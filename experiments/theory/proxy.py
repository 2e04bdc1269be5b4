"""Live data, which theory predicts, as a proxy for accuracy, by results of the unlearning experiment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from experiments.harness.plots import COLOURS, figure
from experiments.harness.report import Claim, verdict
from experiments.harness.results import Results
from experiments.harness.statistics import mean_of
from experiments.harness.verdicts import together
from fedsgt.plans import rotations

SERVED = 0.5  # of the streams at the least, for a point
CLOSE = 0.03
CAPTION = (
    "Accuracy of the unlearning experiment (mean over seeds) against expected live data of the streams still "
    "served, one point for each number of requests. If live data were all that counts, both systems would "
    "lie on one line; FedCIO's data is the sum over its models."
)

Points = list[tuple[float, float]]  # live data as a share of all, accuracy


@dataclass(frozen=True)
class Pair:
    """One task and partition: FedSGT's and FedCIO's points, seed by seed."""

    where: str
    ours: list[Points]
    theirs: list[Points]


def compared(results: Results) -> list[Pair]:
    """Return the pairs of which both systems were measured; empty if there is none."""
    found = []
    for name in results.cells:
        where, _, system = name.rpartition("-")
        other = f"{where}-fedcio"
        if system == "fedsgt":
            ours, theirs = (_known(results, cell) for cell in (name, other))
            seeds = sorted(ours.keys() & theirs.keys())
            if seeds:
                points = [_points(ours[seed], clusters=False) for seed in seeds]
                found.append(Pair(where, points, [_points(theirs[seed], clusters=True) for seed in seeds]))
    return found


def _known(results: Results, cell: str) -> dict[int, Any]:
    """Return the results, by seed, that have the number of slices with records of each group."""
    return {seed: result for seed, result in results.seeds(cell) if "slices" in result}


def _points(result: dict[str, Any], clusters: bool) -> Points:
    curve, records = result["curves"]["slice"], np.array(result["groups"])
    prior = np.array(result["slices"]) / sum(result["slices"])
    counts = range(sum(share >= SERVED for share in curve["alive"]))  # live data never grows
    plan = rotations(len(records))  # every group begins a sequence of it, as every cluster serves alone
    if clusters:
        live = [float(records @ (1 - prior) ** number) / records.sum() for number in counts]
    else:
        live = [value / plan.groups for value in plan.expected_live(counts, prior)]
    # Accuracy is of streams that are still served, so this is, too.
    served = plan.survival(counts, prior)
    return [
        (data / chance, accuracy)
        for data, chance, accuracy in zip(live, served, curve["accuracy"][: len(counts)], strict=True)
    ]


def claims(pairs: list[Pair]) -> list[Claim]:
    ranks = [mean_of([_rank(points) for points in pair.ours]) for pair in pairs]
    gaps = [mean_of([_gap(*seeds) for seeds in zip(pair.ours, pair.theirs, strict=True)]) for pair in pairs]
    return [
        Claim(
            "Live data is positively correlated with accuracy (FedSGT; both fall with requests)",
            "assumed",
            "; ".join(
                f"{pair.where}: rank correlation {rank.text(1, 2)}"
                for pair, rank in zip(pairs, ranks, strict=True)
            ),
            together(ranks),
        ),
        *(
            Claim(
                f"{pair.where}: at equal live data FedCIO is as accurate as FedSGT (within 3 points)",
                "assumed, where the two are compared by it",
                f"FedCIO minus FedSGT {gap.text()} points",
                verdict(gap, equal=CLOSE),
            )
            for pair, gap in zip(pairs, gaps, strict=True)
        ),
    ]


def _rank(points: Points) -> float:
    live, accuracy = zip(*points, strict=True)
    return float(spearmanr(live, accuracy).statistic) if len(set(accuracy)) > 1 else 0.0


def _gap(ours: Points, theirs: Points) -> float:
    """Return the mean gap of FedCIO's accuracies to FedSGT's at as much live data."""
    live, accuracy = zip(*sorted(ours), strict=True)
    return float(np.mean([found - np.interp(share, live, accuracy) for share, found in theirs]))


def draw(file: Path, pairs: list[Pair]) -> None:
    with figure(file, len(pairs), width=3.4) as panels:
        for axes, pair in zip(panels, pairs, strict=True):
            for number, (label, seeds) in enumerate((("FedSGT", pair.ours), ("FedCIO", pair.theirs))):
                shown = min(map(len, seeds), default=0)
                means = [np.mean([points[at] for points in seeds], axis=0) for at in range(shown)]
                xs, ys = [mean[0] for mean in means], [mean[1] for mean in means]
                axes.plot(xs, ys, ".-", color=COLOURS[number], label=label, linewidth=0.8)
            axes.set_title(pair.where)
            axes.set_xlabel("expected live data, if served")
            axes.set_ylabel("accuracy")
        panels[0].legend(fontsize=7)
