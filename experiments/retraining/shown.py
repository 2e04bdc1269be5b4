"""Tables, claims and pictures of retraining."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.harness.names import PARTITIONS, name
from experiments.harness.plots import COLOURS, figure
from experiments.harness.report import SEEDS, Claim, Table, verdict
from experiments.harness.results import Results
from experiments.harness.settings import Settings
from experiments.harness.statistics import difference, mean_of

SYSTEMS = {"fedsgt": "FedSGT", "fedcio-retrain": "FedCIO", "fedretrain": "FedRetrain"}
Pair = tuple[str, str]
GRID = 200
CLOSE = 0.03
# Accuracies are shares of a few hundred records, and one that just suffices must not fail by rounding.
TINY = 1e-9
Point = dict[str, Any]


def tables(settings: Settings, found: Mapping[Pair, Results]) -> list[Table]:
    return [_accuracies(found), _durations(settings, found), _targets(settings, found)]


def _known(values: list[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _accuracies(found: Mapping[Pair, Results]) -> Table:
    rows = []
    for pair, results in found.items():
        for system, words in SYSTEMS.items():
            cell = name(*pair, system)
            now = results.values(cell, "at_once")
            served = _known(now)
            steps = [results.values(cell, "before"), served]
            steps += [results.values(cell, when, "accuracy") for when in ("online", "done")]
            texts = [mean_of(values).text() if values else "no service" for values in steps]
            share = f"{len(served)} of {len(now)}"
            hit = mean_of(results.values(cell, "dead")).text(1)
            rows.append([pair[0], PARTITIONS[pair[1]], words, hit, *texts, share])
    head = (
        "groups hit",
        "before",
        "right after",
        "first sequence whole",
        "all trained",
        "seeds never without service",
    )
    return Table("Accuracy in percent", ("task", "partition", "system", *head), rows)


def _durations(settings: Settings, found: Mapping[Pair, Results]) -> Table:
    rows = []
    for pair, results in found.items():
        for system, words in SYSTEMS.items():
            row = [pair[0], PARTITIONS[pair[1]], words]
            cell = name(*pair, system)
            moments = [own_level(settings, results, cell)]
            moments += [results.values(cell, when) for when in ("online", "done")]
            for points in moments:
                row += [mean_of([point[what] for point in points]).text(1) for what in ("seconds", "passes")]
            rows.append(row)
    head = [
        f"{words}, {unit}"
        for words in ("its own level", "first sequence whole", "all trained")
        for unit in ("CPU s", "passes")
    ]
    return Table("Time after the deletions", ("task", "partition", "system", *head), rows)


def reached(results: Results, pair: Pair, system: str, below: float) -> list[Point | None]:
    """Return the time at which each seed reached the common target for good; None if it never did."""
    final = results.values(name(*pair, "fedretrain"), "done", "accuracy")
    points = results.values(name(*pair, system), "points")
    return [_for_good(own, best - below) for own, best in zip(points, final, strict=True)]


def own_level(settings: Settings, results: Results, cell: str) -> list[Point]:
    """Return the time from which each seed served nearly as well as when all is trained."""
    found = []
    for points in results.values(cell, "points"):
        moment = _for_good(points, points[-1]["accuracy"] - settings["near"])
        assert moment is not None, "it is at its own level in the end"
        found.append(moment)
    return found


def _for_good(points: Sequence[Point], target: float) -> Point | None:
    """Return the first point from which the accuracy is never below the target."""
    found = None
    for point in reversed(points):
        if point["accuracy"] is None or point["accuracy"] < target - TINY:
            break
        found = point
    return found


def _target(settings: Settings) -> str:
    return f"FedRetrain's final accuracy less {100 * settings['target_below']:g} points"


def _targets(settings: Settings, found: Mapping[Pair, Results]) -> Table:
    rows = []
    for pair, results in found.items():
        for system, words in SYSTEMS.items():
            moments = reached(results, pair, system, settings["target_below"])
            known = [point for point in moments if point is not None]
            texts = [
                mean_of([point[what] for point in known]).text(1) if known else "never"
                for what in ("seconds", "passes")
            ]
            never = f"{len(moments) - len(known)} of {len(moments)}"
            rows.append([pair[0], PARTITIONS[pair[1]], words, *texts, never])
    title = f"Time until {_target(settings)} (same seed) is served for good, over the seeds that reach it"
    return Table(title, ("task", "partition", "system", "CPU s", "passes", "seeds that never do"), rows)


def claims(settings: Settings, results: Results, pair: Pair) -> list[Claim]:
    where = f"{pair[0]}, {PARTITIONS[pair[1]]}"
    cell = {system: name(*pair, system) for system in SYSTEMS}
    said = "not measured; the paper describes it"
    sooner = {
        other: difference(
            *(
                [point["passes"] for point in own_level(settings, results, cell[system])]
                for system in (other, "fedsgt")
            )
        )
        for other in ("fedcio-retrain", "fedretrain")
    }
    passes = [mean_of(results.values(cell["fedsgt"], when, "passes")).text(1) for when in ("online", "done")]
    online = difference(*(results.values(cell["fedsgt"], when, "accuracy") for when in ("online", "done")))
    return [
        Claim(
            f"{where}: FedSGT's online part brings back the final accuracy, to 3 points", said,
            f"{online.text()} points, after {passes[0]} of {passes[1]} passes", verdict(online, equal=CLOSE),
        ),
        *(
            Claim(
                f"{where}: FedSGT is at its own final accuracy, for good, sooner than {SYSTEMS[other]}",
                said, f"{gap.text(1)} passes sooner", verdict(gap),
            )
            for other, gap in sooner.items()
        ),
        *(_target_claim(settings, results, pair, other) for other in sooner),
        _total_claim(results, where, cell),
    ]  # fmt: skip


def _target_claim(settings: Settings, results: Results, pair: Pair, other: str) -> Claim:
    """Return the claim about reaching the target; seeds are counted if one never reaches it."""
    moments = {
        system: reached(results, pair, system, settings["target_below"]) for system in ("fedsgt", other)
    }
    gaps = [_later(two) - _later(one) for one, two in zip(*moments.values(), strict=True) if one or two]
    never = ", ".join(f"{SYSTEMS[who]} never in {found.count(None)}" for who, found in moments.items())
    count, where = len(moments[other]), f"{pair[0]}, {PARTITIONS[pair[1]]}"
    sooner = sum(gap > 0 for gap in gaps)
    known = f"; {mean_of(gaps).text(1)} passes sooner" if gaps and np.isfinite(gaps).all() else ""
    return Claim(
        f"{where}: FedSGT serves {_target(settings)} for good sooner than {SYSTEMS[other]}",
        "not measured; the paper describes it",
        f"sooner in {sooner} of {count} seeds ({never}){known}",
        _counted(gaps, count),
    )


def _later(moment: Point | None) -> float:
    return np.inf if moment is None else float(moment["passes"])


def _counted(gaps: Sequence[float], count: int) -> str:
    """Return the verdict by the interval if all gaps are finite, else only if all seeds agree."""
    if len(gaps) == count and np.isfinite(gaps).all():
        return verdict(mean_of(gaps))
    if len(gaps) < count or count < SEEDS:
        return "not decided"
    same = {gap > 0 for gap in gaps}
    return "not decided" if len(same) == 2 else "holds" if same == {True} else "does not hold"


def _total_claim(results: Results, where: str, cell: Mapping[str, str]) -> Claim:
    more = difference(
        results.values(cell["fedsgt"], "done", "passes"),
        results.values(cell["fedcio-retrain"], "done", "passes"),
    )
    text = f"{where}: retraining all of FedSGT costs more than FedCIO's clusters"
    return Claim(text, "not measured; more sequences are hit", f"{more.text(1)} passes more", verdict(more))


def caption(task: str, partition: str) -> str:
    return (
        f"{task}, {PARTITIONS[partition]}: accuracy served while retraining goes on (mean over seeds, where "
        "all are served), by passes over the data and by CPU time. Dotted: before the deletions."
    )


def drawer(results: Results, task: str, partition: str) -> Any:
    def draw(file: Path) -> None:
        with figure(file, 2, width=5) as panels:
            for axes, what in zip(panels, ("passes", "seconds"), strict=True):
                ends = [results.values(name(task, partition, system), "done", what) for system in SYSTEMS]
                grid = np.linspace(0, 1.05 * max(map(max, ends)), GRID)
                for number, (system, words) in enumerate(SYSTEMS.items()):
                    cell = name(task, partition, system)
                    _curve(axes, results, cell, what, grid, words, COLOURS[number])
                axes.set_xlabel({"passes": "passes over the data", "seconds": "CPU seconds"}[what])
                axes.set_ylabel("accuracy served")
            panels[0].legend(loc="lower right")

    return draw


def _curve(axes: Any, results: Results, cell: str, what: str, grid: Any, words: str, colour: str) -> None:
    """Draw steps: the last accuracy holds until the next module is there."""
    rows = [[_at(points, what, x) for x in grid] for points in results.values(cell, "points")]
    columns = [None if None in column else mean_of(column) for column in zip(*rows, strict=True)]
    middle = np.array([np.nan if mean is None else mean.value for mean in columns])
    half = np.array([0.0 if mean is None or mean.count < 2 else mean.half for mean in columns])
    axes.plot(grid, middle, color=colour, label=words, linewidth=1.6)
    axes.fill_between(grid, middle - half, middle + half, color=colour, alpha=0.15, linewidth=0)
    before = mean_of(results.values(cell, "before")).value
    axes.axhline(before, color=colour, linestyle=":", linewidth=0.8)


def _at(points: list[dict[str, Any]], what: str, x: float) -> float | None:
    accuracy: float | None = [point for point in points if point[what] <= x][-1]["accuracy"]
    return accuracy
