"""A forecast on one screen."""

from __future__ import annotations

import math

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedsgt.cli.options import show_bytes
from fedsgt.config import Run
from fedsgt.plans import Estimate
from fedsgt.theory.planner import Forecast
from fedsgt.theory.recommend import Recommendation

BAR = 18  # two of them, with their figures and errors, fit 80 columns
ROWS = 11


def show_forecast(run: Run, scored: Forecast) -> None:
    """Curves, deletion rate, cost, traffic, storage."""
    console = Console(highlight=False)
    plan = scored.plan
    console.print(
        f"[bold]{_some(run.data.clients, 'client')}, {_slices(run)},"
        f" {_some(plan.groups, 'group')} ({run.grouping.method}),"
        f" {_some(len(plan.sequences), 'sequence')} ({plan.kind})[/bold]\n"
    )
    console.print(_curves(scored))
    console.print(_facts(run, scored))


def show_recommendation(advice: Recommendation) -> None:
    console = Console(highlight=False)
    console.print(f"\n[bold]Recommended[/bold] {advice.reason()}")
    if advice.keep_given:
        return
    flags = (
        f"--groups {advice.best.forecast.plan.groups} --slices {advice.best.slices} --plan {advice.best.kind}"
    )
    flags += f" --grouping {advice.best.method}"
    flags += f" --passes {advice.best.passes:g}" if advice.best.passes is not None else ""
    console.print(f"Look closer with: fedsgt plan {flags}", soft_wrap=True)


def _slices(run: Run) -> str:
    slices = run.slices_per_client()
    if len(set(slices)) == 1:
        return f"{_some(slices[0], 'slice')} each"
    return f"{min(slices)} to {max(slices)} slices each"


def _some(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _curves(scored: Forecast) -> Table:
    requests, curves = scored.stream.requests, scored.curves
    step = max(1, math.ceil(requests / (ROWS - 1)))
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("after request", justify="right")
    table.add_column("alive")
    table.add_column("live data")
    for count in range(0, requests + 1, step):
        share = Estimate(
            curves.live[count] / scored.plan.groups, curves.live[count].stderr / scored.plan.groups
        )
        table.add_row(str(count), _bar(curves.alive[count]), _bar(share))
    return table


def _bar(share: Estimate) -> Text:
    """A bar and its figure; an estimate shows its standard error."""
    length = round(float(share) * BAR * 2)
    bar = "█" * (length // 2) + "▌" * (length % 2)
    error = "" if share.exact else f" ±{share.stderr:.2%}"
    return Text(f"{bar:<{BAR}} {float(share):4.0%}{error}")


def _facts(run: Run, scored: Forecast) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column()
    for name, fact in (
        ("\ndeletion rate", "\n" + _rate(scored)),
        ("training", _cost(scored)),
        ("per client", _traffic(scored)),
        ("storage", _storage(scored)),
    ):
        table.add_row(name, fact)
    if run.grouping.method in ("bac", "centered"):
        table.add_row(
            "note", f"{run.grouping.method} grouping needs the data; planned with random groups of equal size"
        )
    if not all(value.exact for value in scored.curves.alive):
        table.add_row(
            "note", "Monte Carlo: this stream or number of groups has no exact score here; errors are shown"
        )
    return table


def _rate(scored: Forecast) -> str:
    if math.isinf(scored.deletion_rate):
        fact = "never exhausted: some first group is never hit"
    else:
        fact = f"{scored.deletion_rate:,.2f} requests until nothing is live, of single slices"
    rate = scored.deletion_rate_clients
    if rate is not None:
        fact += f"; {rate:.2f} of whole clients" if math.isfinite(rate) else "; never by whole clients"
    below = next((count for count, alive in enumerate(scored.curves.alive) if alive < 0.9), None)
    tail = (
        f"alive with less than 90% from request {below} on" if below else "alive with 90% or more throughout"
    )
    return f"{fact}; in this stream {tail}"


def _cost(scored: Forecast) -> str:
    rounds = scored.fedavg_rounds
    return (
        f"{scored.plan.passes:g} passes over the data, once; FedAvg {rounds} (cannot forget);"
        f" FedRetrain {scored.fedretrain_passes} for {scored.stream.requests} requests,"
        f" dearer from request {scored.break_even} on"
    )


def _storage(scored: Forecast) -> str:
    modules = scored.plan.modules
    return f"{_some(modules, 'module')}, {show_bytes(modules * scored.module_bytes)}"


def _traffic(scored: Forecast) -> str:
    traffic, size = scored.traffic, scored.module_bytes
    return (
        f"{traffic.rounds:.1f} rounds ({traffic.least_rounds} to {traffic.most_rounds}),"
        f" {show_bytes(traffic.modules_up * size)} up and {show_bytes(traffic.modules_down * size)} down"
        f" at {show_bytes(size)} a module"
    )
