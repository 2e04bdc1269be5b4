"""`fedsgt plan`: show the cost of a setting and how long it serves, before anything is trained."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import click
import typer
from click.core import ParameterSource

from fedsgt import grouping
from fedsgt.cli.commands.options import (
    AsJson,
    ConfigFile,
    Overrides,
    SystemName,
    check_plot,
    load_run,
    read_bytes,
    read_numbers,
)
from fedsgt.cli.views.plan import score_json, show_recommendation, show_score
from fedsgt.cli.views.progress import progress
from fedsgt.config import Config
from fedsgt.errors import InputError
from fedsgt.planning.planner import PlanScore, score_plan
from fedsgt.planning.recommend import Recommendation, recommend
from fedsgt.planning.stream import Counts, Stream
from fedsgt.plans import Plan, make

# Methods that look at the data, and those that plan in their place: the others know no data yet.
NEEDS_DATA = {"bac": "random", "centered": "random", "updates": "affinity"}
MOST_REQUESTS = 100_000  # more is a slip of the keyboard, and would take very long
# Options that the recommended command must not repeat: it answers them, or only the search needs them.
ANSWERED = {
    "slices",
    "groups",
    "budget",
    "passes",
    "kind",
    "method",
    "recommended",
    "target",
    "max_passes",
    "plot",
}


def plan(
    config: ConfigFile = None,
    clients: Annotated[int | None, typer.Option(help="Number of clients, N.")] = None,
    slices: Annotated[
        str | None, typer.Option(help="Slices of a client, S: one number, or one for each client: 5,5,2.")
    ] = None,
    groups: Annotated[int | None, typer.Option(help="Number of groups, L.")] = None,
    budget: Annotated[int | None, typer.Option(help="Number of sequences, B.")] = None,
    passes: Annotated[
        float | None, typer.Option(help="Most passes over the data that training may cost.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--plan", help="Kind of plan: rotations, tree, greedy, ...")
    ] = None,
    method: Annotated[
        str | None, typer.Option("--grouping", help="Grouping: random, affinity, bac, centered or updates.")
    ] = None,
    limits: Annotated[
        str | None,
        typer.Option(help="Most groups a client may be in, B_i: one number, or one for each client."),
    ] = None,
    requests: Annotated[int, typer.Option(help="Number of deletion requests to expect.")] = 30,
    client_requests: Annotated[int, typer.Option(help="Number of these that delete a whole client.")] = 0,
    prior: Annotated[
        str | None,
        typer.Option(help="Chance of each client to file a request: 0.5,0.3,0.2, or a file of numbers."),
    ] = None,
    module_size: Annotated[str, typer.Option(help="Size of one module, such as 2.4MB.")] = "2.4MB",
    fedavg_rounds: Annotated[int, typer.Option(help="Rounds of FedAvg to compare with.")] = 10,
    recommended: Annotated[bool, typer.Option("--recommend", help="Search for a better setting.")] = False,
    target: Annotated[
        float | None, typer.Option(help="With --recommend: chance to still serve at the end (default: 0.9).")
    ] = None,
    max_passes: Annotated[
        float | None,
        typer.Option(help="With --recommend: most passes (default: those of the given setting)."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw the curves into this file (.svg, .png or .pdf).")
    ] = None,
    as_json: AsJson = False,
    system: SystemName = None,
    overrides: Overrides = None,
) -> None:
    """Show what a setting costs and how many deletions it takes, before anything is trained."""
    flags = {
        "data.clients": clients,
        "grouping.slices": _as_list(slices),
        "grouping.groups": groups,
        "grouping.limits": _as_list(limits),
        "grouping.method": method,
        "plan.kind": kind,
        "plan.budget": budget,
        "plan.passes": passes,
    }
    given = [f"{key}={value}" for key, value in flags.items() if value is not None]
    # Options come last and so win over the file and over --set.
    run = load_run(config, system, [*(overrides or ()), *given])
    _check(requests, fedavg_rounds, recommended or (target is None and max_passes is None), plot)
    if recommended:
        _check_own_plan(run, system)
    likely = None if prior is None else tuple(read_numbers("prior", prior))
    stream = Stream(requests, client_requests, likely)
    counts = _counts(run, likely)
    scored = score_plan(_plan(run), counts, stream, read_bytes(module_size), fedavg_rounds)
    advice = _recommended(run, scored, max_passes, 0.9 if target is None else target) if recommended else None
    if plot is not None:
        from fedsgt.cli.views.plot_plan import draw  # matplotlib takes a second to import

        draw(plot, scored, advice)
    if as_json:
        typer.echo(json.dumps(score_json(run, scored, advice), indent=2))
        return
    show_score(run, scored)
    if advice is not None:
        show_recommendation(advice, _options_given())
    if plot is not None:
        typer.echo(f"\nDrawn into {plot}")


def _check(requests: int, fedavg_rounds: int, searching: bool, plot: Path | None) -> None:
    if requests > MOST_REQUESTS:
        raise InputError(f"requests: {requests} is too many; at most {MOST_REQUESTS}")
    if fedavg_rounds < 1:
        raise InputError(f"fedavg rounds: {fedavg_rounds} is too few; at least 1")
    if not searching:
        raise InputError("target and max passes: they say what to search for; give --recommend with them")
    if plot is not None:
        check_plot(plot)


def _check_own_plan(run: Config, system: str | None) -> None:
    if run.plan.shards > 1 or system not in (None, "fedsgt"):
        raise InputError(
            "recommend: it compares FedSGT's own plans, of one shard; leave --system and plan.shards out"
        )


def _options_given() -> list[str]:
    """Return the options that were typed, without those that a recommendation answers."""
    context, words = click.get_current_context(), list[str]()
    for parameter in context.command.params:
        name, value = str(parameter.name), context.params.get(str(parameter.name))
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE or name in ANSWERED:
            continue
        option = [parameter.opts[-1]] if isinstance(parameter, click.Option) else []
        for one in value if isinstance(value, list | tuple) else [value]:
            words += [*option, str(one)]
    return words


def _as_list(text: str | None) -> str | None:
    """Put 5,5,2 into the brackets that TOML wants around a list."""
    return f"[{text}]" if text is not None and "," in text and not text.startswith("[") else text


def _plan(run: Config) -> Plan:
    section, groups = run.plan, run.grouping.groups
    given = partial(
        make, section.kind, groups, section.budget, section.passes, seed=section.seed, shards=section.shards
    )
    if section.kind != "tree":  # all others take no time that a bar could show
        return given()
    with progress("Searching a tree plan") as done:
        return given(progress=done)


def _counts(run: Config, likely: tuple[float, ...] | None) -> Counts:
    """Return the slices of each client in each group, as far as these are known without the data."""
    method = NEEDS_DATA.get(run.grouping.method, run.grouping.method)
    return _group(method, run.slices_per_client(), run.grouping.groups, run, likely)


def _group(
    method: str, slices: list[int], groups: int, run: Config, likely: tuple[float, ...] | None
) -> Counts:
    related: dict[str, Any] = {}
    if method == "affinity":  # clients that ask most share groups; else each client keeps to few groups
        related = {"clusters": range(len(slices))} if likely is None else {"rates": likely}
    limits, seed = run.grouping.limits, run.grouping.seed
    return grouping.make(method, slices, groups, limits=limits, seed=seed, **related).counts()


def _recommended(run: Config, scored: PlanScore, max_passes: float | None, target: float) -> Recommendation:
    clients = run.data.clients

    def group(method: str, slices: int, groups: int) -> Counts:
        return _group(method, [slices] * clients, groups, run, scored.stream.prior)

    # Without a limit, a recommendation may cost as much as the given setting and no more.
    cap = scored.plan.passes if max_passes is None else max_passes
    with progress("Searching settings") as done:
        return recommend(scored, clients, group, cap, target, done)
