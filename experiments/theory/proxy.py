"""Whether live data, which theory foretells, stands for accuracy: by results of the unlearning experiment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from experiments.harness.plots import COLOURS, figure
from experiments.harness.report import Claim, verdict
from experiments.harness.results import Results
from experiments.harness.statistics import mean_of
from experiments.harness.verdicts import together
from fedsgt import theory

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


def compared(folder: Path) -> list[Pair]:
    """Of all that was measured for both; none if nothing was."""
    results, found = Results.read(folder), []
    for name in results.cells:
        where, _, system = name.rpartition("-")
        other = f"{where}-fedcio"
        if system == "fedsgt" and other in results.cells:
            seeds = sorted(results.cells[name].keys() & results.cells[other].keys())
            ours = [_points(results.cells[name][seed]["result"], clusters=False) for seed in seeds]
            theirs = [_points(results.cells[other][seed]["result"], clusters=True) for seed in seeds]
            found.append(Pair(where, ours, theirs))
    return found


def _points(result: dict[str, dict[str, dict[str, list[float]]]], clusters: bool) -> Points:
    curve, groups = result["curves"]["slice"], len(result["groups"])
    points = []
    for number, (accuracy, alive) in enumerate(zip(curve["accuracy"], curve["alive"], strict=True)):
        if alive < SERVED:
            break
        if clusters:
            live = float(theory.fedcio_expected_remaining(groups, number))
        else:
            live = float(theory.expected_live(groups, number)) / groups
        # Accuracy is of streams that are still served, so this is, too.
        points.append((live / float(theory.survival(groups, groups, number)), accuracy))
    return points


def claims(pairs: list[Pair]) -> list[Claim]:
    ranks = [mean_of([_rank(points) for points in pair.ours]) for pair in pairs]
    gaps = [mean_of([_gap(*seeds) for seeds in zip(pair.ours, pair.theirs, strict=True)]) for pair in pairs]
    return [
        Claim(
            "Live data is positively correlated with accuracy under deletions (FedSGT)",
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
    """Of FedCIO's accuracies to FedSGT's at as much live data, in the mean over FedCIO's points."""
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
