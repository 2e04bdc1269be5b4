"""The score of a plan on one screen."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedsgt.config import Config
from fedsgt.planning.planner import PlanScore
from fedsgt.planning.recommend import Recommendation
from fedsgt.plans import Estimate
from fedsgt.plans.scoring.whole_clients import whole_clients_words
from fedsgt.plans.statistics_cost import StatisticsCost
from fedsgt.words import counted, counted_passes, counted_range, shown_bytes

ROWS = 11  # most rows of the curves, so that all fits one screen
WIDEST = 18  # columns of a bar
NOTHING = "none: the plan has no modules"
LABELS = 10  # taken where the configuration does not say; they make little of a statistic's size


def show_score(run: Config, scored: PlanScore, features: int) -> None:
    """Print curves, deletion rate, cost, traffic and storage of a setting."""
    console, plan = Console(highlight=False), scored.plan
    console.print(
        f"[bold]{counted(run.client_count(), 'client')}, {_slices(run)},"
        f" {counted(plan.groups, 'group')} ({run.grouping.method}),"
        f" {counted(len(plan.sequences), 'sequence')} ({plan.kind}{_shards(run)})[/bold]\n"
    )
    if plan.modules:
        console.print(_curves(scored, _Bars(console, scored)))
    elif run.heads.solve:
        console.print("no module: the bare backbone answers with a solved head as long as a record is left")
    console.print(_facts(run, scored, features))


def show_recommendation(advice: Recommendation, options: list[str]) -> None:
    """Print the reason, and the command that shows the setting with the options given before."""
    console, best = Console(highlight=False), advice.best
    console.print(f"\n[bold]Recommended:[/bold] {advice.reason()}")
    if advice.keep_given:
        return
    words = [
        "fedsgt",
        "plan",
        *options,
        "--groups",
        str(best.score.plan.groups),
        "--slices",
        str(best.slices),
    ]
    words += ["--plan", best.kind, "--grouping", best.method]
    if best.limits is not None:
        limits = [best.limits] if isinstance(best.limits, int) else best.limits
        words += ["--limits", ",".join(map(str, limits))]
    words += ["--passes", f"{best.passes:g}"] if best.passes is not None else []
    words += ["--window", str(best.window)] if best.window is not None else []
    # One line without markup, so that it can be copied into a shell.
    console.print(f"Look closer with: {shlex.join(words)}", soft_wrap=True, markup=False)


def score_json(
    run: Config, scored: PlanScore, advice: Recommendation | None, features: int
) -> dict[str, Any]:
    """Return the setting, its score and the recommendation, for programs."""
    setting = {
        "clients": run.client_count(),
        "slices": run.slices_per_client(),
        "groups": run.grouping.groups,
        "grouping": run.grouping.method,
        "window": run.training.window,
    }
    result = {"setting": setting, **scored.to_json(), "statistics": _statistics_json(run, scored, features)}
    if advice is not None:
        best = advice.best
        result["recommendation"] = {
            "reason": advice.reason(),
            "keep_given": advice.keep_given,
            "meets_target": advice.meets_target,
            "settings_searched": advice.searched,
            "slices": best.slices,
            "grouping": best.method,
            "limits": best.limits,
            "window": best.window,
            **best.score.to_json(),
        }
    return result


class _Bars:
    """Draws bars as wide as the screen allows, of blocks if the output can show them."""

    def __init__(self, console: Console, scored: PlanScore) -> None:
        estimated = not all(value.exact for value in scored.curves.live)
        room = console.width - len("after request") - 2 * (len("  100%") + estimated * len(" ±0.00%")) - 4
        self.width = max(3, min(WIDEST, room // 2))
        # Not every terminal or file can encode these characters.
        try:
            "█▌±".encode(console.encoding)
            self.whole, self.half, self.error = "█", "▌", "±"
        except UnicodeEncodeError:
            self.whole, self.half, self.error = "#", "", "+-"

    def draw(self, share: Estimate) -> Text:
        """Return a bar and its figure; an estimate also shows its standard error."""
        # In half blocks, which doubles the resolution.
        length = round(float(share) * self.width * 2)
        bar = self.whole * (length // 2) + self.half * (length % 2)
        error = "" if share.exact else f" {self.error}{share.stderr:.2%}"
        return Text(f"{bar:<{self.width}} {float(share):4.0%}{error}")


def _slices(run: Config) -> str:
    slices = run.slices_per_client()
    return f"{counted_range(min(slices), max(slices), 'slice')} each"


def _shards(run: Config) -> str:
    return f", in {run.plan.shards} shards" if run.plan.shards > 1 else ""


def _curves(scored: PlanScore, bars: _Bars) -> Table:
    requests, curves, groups = scored.stream.requests, scored.curves, scored.plan.groups
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("after request", justify="right", no_wrap=True)
    table.add_column("alive", no_wrap=True)
    table.add_column("live data", no_wrap=True)
    # The first and the last request are always shown, so one row less is left for the steps between.
    step = max(1, math.ceil(requests / (ROWS - 1)))
    for count in sorted({*range(0, requests + 1, step), requests}):
        share = Estimate(curves.live[count] / groups, curves.live[count].stderr / groups)
        table.add_row(str(count), bars.draw(curves.alive[count]), bars.draw(share))
    return table


def _facts(run: Config, scored: PlanScore, features: int) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column()
    for name, fact in (
        ("\ndeletion rate", "\n" + _rate(scored)),
        ("whole clients", _whole_clients(run, scored)),
        ("training", _cost(scored)),
        ("per client", _traffic(scored)),
        ("storage", _storage(scored)),
        *_statistics(run, scored, features),
    ):
        table.add_row(name, fact)
    for note in _notes(run):
        table.add_row("note", note)
    if scored.plan.kind.startswith("rotations") and len(scored.plan.sequences) > scored.plan.groups:
        most = scored.plan.groups // run.plan.shards
        table.add_row("note", f"more than {most} rotations repeat: nothing is trained or served twice")
    if not all(value.exact for value in scored.curves.alive):
        table.add_row(
            "note", "Monte Carlo: this stream or number of groups has no exact score here; errors are shown"
        )
    return table


def _notes(run: Config) -> Iterator[str]:
    """Yield a note for each setting of the run that the figures leave out."""
    method, rounds = run.grouping.method, run.training.rounds
    if method in ("bac", "centered"):
        yield f"{method} grouping needs the data; planned with random groups of equal size"
    if method == "updates":
        yield "updates grouping needs the data; planned with clusters of equal size"
    if run.plan.shards > 1:
        yield "live data is that of the longest sequence, of one shard; all shards together hold more"
    if rounds > 1:
        yield f"passes and rounds are those of one round a module; training.rounds is {rounds}"


def _rate(scored: PlanScore) -> str:
    if not scored.plan.modules:
        return NOTHING
    if math.isinf(scored.deletion_rate):
        fact = "never exhausted: some first group is never hit"
    else:
        fact = f"{scored.deletion_rate:,.2f} requests until nothing is live, of single slices"
    below = next((count for count, alive in enumerate(scored.curves.alive) if alive < 0.9), None)
    tail = f"P(alive) falls below 90% at request {below}" if below else "P(alive) stays at 90% or more"
    return f"{fact}; in this stream {tail}"


def _whole_clients(run: Config, scored: PlanScore) -> str:
    if not scored.plan.modules:
        return NOTHING
    rate = scored.deletion_rate_clients
    error = "" if rate.exact else f" (standard error {rate.stderr:.2g})"
    return f"{whole_clients_words(rate, run.client_count())}{error}"


def _cost(scored: PlanScore) -> str:
    requests, even = scored.stream.requests, scored.break_even
    passes = counted_passes(scored.plan.passes)
    window = "" if scored.plan.window is None else f" with window {scored.plan.window}"
    fact = f"{passes} over the data{window}, once; FedAvg {scored.fedavg_rounds} (cannot forget)"
    if requests:
        fact += f"; FedRetrain {scored.fedretrain_passes} for {counted(requests, 'request')}"
        fact += f", dearer from request {max(even, 1)} on" if even <= requests else ", still cheaper"
    return fact


def _storage(scored: PlanScore) -> str:
    modules, size = counted(len(scored.plan.modules), "module"), scored.module_bytes
    return f"{modules} of {shown_bytes(size)}, {shown_bytes(len(scored.plan.modules) * size)}"


def _statistics_cost(run: Config, scored: PlanScore) -> StatisticsCost | None:
    """Return the cost of the statistics from which heads are solved; None if the run solves none."""
    heads, plan = run.heads, scored.plan
    if not heads.solve:
        return None
    strategy = run.serving.strategy
    return StatisticsCost.of(len(plan.modules), plan.sequences, heads.when, heads.share, strategy)


def _statistics(run: Config, scored: PlanScore, features: int) -> list[tuple[str, str]]:
    cost = _statistics_cost(run, scored)
    if cost is None:
        return []
    size = shown_bytes(cost.bytes(run.client_count(), features, run.data.labels or LABELS))
    return [("statistics", f"{cost.words()}; {size} at {features} features")]


def _statistics_json(run: Config, scored: PlanScore, features: int) -> dict[str, Any] | None:
    cost = _statistics_cost(run, scored)
    if cost is None:
        return None
    size = cost.bytes(run.client_count(), features, run.data.labels or LABELS)
    return {**cost.to_json(), "features": features, "bytes": size}


def _traffic(scored: PlanScore) -> str:
    traffic, size = scored.traffic, scored.module_bytes
    least, most = traffic.least_rounds, traffic.most_rounds
    between = "" if least == most else f" ({least} to {most})"
    return (
        f"{traffic.rounds:.1f} rounds{between},"
        f" {shown_bytes(traffic.modules_up * size)} up and {shown_bytes(traffic.modules_down * size)} down"
    )
