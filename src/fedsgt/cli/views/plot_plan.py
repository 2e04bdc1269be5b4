"""The picture of `fedsgt plan --plot`: survival and live data over requests."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("agg")  # no window: the machine may have no screen
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from fedsgt import theory
from fedsgt.errors import InputError
from fedsgt.planning.planner import PlanScore
from fedsgt.planning.recommend import Recommendation
from fedsgt.plans import Estimate
from fedsgt.words import counted_passes

FEDCIO_CLUSTERS = 5  # as in the paper


def draw(path: Path, scored: PlanScore, advice: Recommendation | None) -> None:
    """Draw two panels over the number of requests: P(alive), and the expected share of live data."""
    # Otherwise matplotlib draws random ids, and equal pictures would be different files.
    mpl.rcParams["svg.hashsalt"] = "fedsgt"
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    _curves(left, right, scored, _label(scored), "C0")
    if advice is not None and not advice.keep_given:
        best = advice.best.score
        _curves(left, right, best, f"recommended: {_label(best)}", "C2")
    # FedCIO's closed forms hold for uniform requests of single slices only.
    if scored.stream.whole_clients == 0 and scored.stream.prior is None:
        _fedcio(left, right, scored.stream.requests)
    _finish(left, "P(some module is live)", "Survival")
    _finish(right, "expected share of the data", "Data behind the best live sequence")
    try:
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    except OSError as error:
        raise InputError(f"plot: {path} cannot be written: {error.strerror}") from None
    finally:
        plt.close(figure)


def _label(scored: PlanScore) -> str:
    plan = scored.plan
    return f"{plan.kind}, L={plan.groups}, B={len(plan.sequences)}, {counted_passes(plan.passes)}"


def _curves(left: Axes, right: Axes, scored: PlanScore, label: str, color: str) -> None:
    _curve(left, scored.curves.alive, 1, label, color)
    _curve(right, scored.curves.live, scored.plan.groups, label, color)


def _curve(axes: Axes, values: list[Estimate], whole: int, label: str, color: str) -> None:
    """Draw values as shares of the whole; shade two standard errors where they are estimates."""
    counts = range(len(values))
    axes.plot(counts, [value / whole for value in values], color=color, linewidth=2, label=label)
    if not all(value.exact for value in values):
        low = [(value - 2 * value.stderr) / whole for value in values]
        high = [(value + 2 * value.stderr) / whole for value in values]
        axes.fill_between(
            counts, low, high, color=color, alpha=0.25, label="two standard errors (Monte Carlo)"
        )


def _fedcio(left: Axes, right: Axes, requests: int) -> None:
    counts, clusters = range(requests + 1), FEDCIO_CLUSTERS
    alive = [float(theory.survival(clusters, clusters, count)) for count in counts]
    left.plot(counts, alive, label=f"FedCIO, {clusters} clusters", color="0.5", linestyle="--")
    rest = [float(theory.fedcio_expected_remaining(clusters, count)) for count in counts]
    note = f"FedCIO, {clusters} clusters: sum over disjoint models,\nnot one model's data"
    right.plot(counts, rest, label=note, color="0.5", linestyle="--")


def _finish(axes: Axes, what: str, title: str) -> None:
    axes.set(xlabel="deletion requests", ylabel=what, title=title, ylim=(-0.02, 1.05))
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
