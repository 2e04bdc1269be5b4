"""`fedsgt plan`: show the cost of a setting and how long it serves, before anything is trained."""

from __future__ import annotations

import json
import shlex
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
    check_new_file,
    check_plot,
    load_run,
    read_bytes,
    read_numbers,
    write_new_file,
)
from fedsgt.cli.views.plan import score_json, show_recommendation, show_score
from fedsgt.cli.views.progress import progress
from fedsgt.config import Config, to_toml
from fedsgt.config.load import from_values
from fedsgt.errors import InputError
from fedsgt.planning.planner import PlanScore, score_plan
from fedsgt.planning.purpose import COMPANY, Purpose
from fedsgt.planning.recommend import LIMITS, WINDOWS, Limits, Recommendation, recommend
from fedsgt.planning.stream import Counts, Stream
from fedsgt.plans import Plan, make
from fedsgt.stack.checkpoint_files import feature_width

# Methods that look at the data, and those that plan in their place: the others know no data yet.
NEEDS_DATA = {"bac": "random", "centered": "random", "updates": "affinity"}
VIT_BASE = 768  # width of its features
MOST_REQUESTS = 100_000  # more is a slip of the keyboard, and would take very long
# Options that the recommended command must not repeat: it answers them, or only the search needs them.
ANSWERED = {
    "slices",
    "groups",
    "budget",
    "passes",
    "window",
    "limits",
    "kind",
    "method",
    "recommended",
    "purpose",
    "target",
    "max_passes",
    "plot",
    "write",
    "force",
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
    window: Annotated[
        str | None,
        typer.Option(help="Most groups' worth of records that an epoch of a phase uses: 1, 2, ... or own."),
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
    features: Annotated[
        int | None,
        typer.Option(
            help="Width of the backbone's features, by which statistics of heads take disk (default: that of "
            "model.backbone if it is on this machine, else 768, ViT-Base's).",
            min=1,
        ),
    ] = None,
    fedavg_rounds: Annotated[int, typer.Option(help="Rounds of FedAvg to compare with.")] = 10,
    recommended: Annotated[bool, typer.Option("--recommend", help="Search for a better setting.")] = False,
    purpose: Annotated[
        Purpose | None,
        typer.Option(
            "--for",
            help="With --recommend: deletions to expect. For clients half of them leave, for both these too.",
        ),
    ] = None,
    target: Annotated[
        float | None, typer.Option(help="With --recommend: chance to still serve at the end (default: 0.9).")
    ] = None,
    max_passes: Annotated[
        float | None,
        typer.Option(help="With --recommend: most passes (default: those of the given setting)."),
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --recommend: write the recommended setting, and all else that is given.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="With --write: overwrite a file that is there.")
    ] = False,
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
        "training.window": window,
    }
    given = [f"{key}={value}" for key, value in flags.items() if value is not None]
    # Options come last and so win over the file and over --set.
    run = load_run(config, system, [*(overrides or ()), *given])
    _check(requests, fedavg_rounds, plot)
    _check_search(recommended, target, max_passes, write, force)
    _check_purpose(recommended, purpose, client_requests)
    if recommended:
        _check_own_plan(run, system)
    width = features or feature_width(run.model.backbone) or VIT_BASE
    likely = None if prior is None else tuple(read_numbers("prior", prior))
    stream = Stream(requests, client_requests, likely)
    if purpose is not None:
        stream = Stream.for_purpose(purpose, requests, run.client_count(), likely)
    counts = _counts(run, likely)
    scored = score_plan(_plan(run), counts, stream, read_bytes(module_size), fedavg_rounds)
    company = 1 if purpose is None else COMPANY
    wanted = 0.9 if target is None else target
    advice = _recommended(run, scored, max_passes, wanted, company) if recommended else None
    if plot is not None:
        from fedsgt.cli.views.plot_plan import draw  # matplotlib takes a second to import

        draw(plot, scored, advice)
    if as_json:
        typer.echo(json.dumps(score_json(run, scored, advice, width), indent=2))
    else:
        show_score(run, scored, width)
        if advice is not None:
            show_recommendation(advice, [*_options_given(), *_stream_options(purpose, stream)])
    # What programs read is JSON and nothing else.
    if plot is not None and not as_json:
        typer.echo(f"\nDrawn into {plot}")
    if write is not None and advice is not None:
        write_new_file(write, recommended_toml(run, advice))
        typer.echo(f"Wrote {write}. Next: fedsgt train {shlex.quote(str(write))}", err=as_json)


def _check(requests: int, fedavg_rounds: int, plot: Path | None) -> None:
    if requests > MOST_REQUESTS:
        raise InputError(f"requests: {requests} is too many; at most {MOST_REQUESTS}")
    if fedavg_rounds < 1:
        raise InputError(f"fedavg rounds: {fedavg_rounds} is too few; at least 1")
    if plot is not None:
        check_plot(plot)


def _check_search(
    recommended: bool, target: float | None, max_passes: float | None, write: Path | None, force: bool
) -> None:
    """Refuse options of a search without --recommend, and a file that cannot be written after it."""
    if not recommended and (target is not None or max_passes is not None):
        raise InputError("target and max passes: they say what to search for; give --recommend with them")
    if not recommended and write is not None:
        raise InputError("write: it writes what --recommend finds; give --recommend with it")
    if write is None and force:
        raise InputError("force: it goes with --write FILE")
    if write is not None:
        check_new_file(write, force)


def _check_purpose(recommended: bool, purpose: Purpose | None, client_requests: int) -> None:
    source = click.get_current_context().get_parameter_source("requests")
    if purpose is Purpose.CLIENTS and source is ParameterSource.COMMANDLINE:
        raise InputError("for: with clients, half of them leave, one a request; leave --requests out")
    if purpose is not None and not recommended:
        raise InputError("for: it says what to search for; give --recommend with it")
    if purpose is not None and client_requests:
        raise InputError("for: it says how many clients leave; leave --client-requests out")


def _stream_options(purpose: Purpose | None, stream: Stream) -> list[str]:
    """Return the stream of a purpose as options."""
    if purpose is None:
        return []
    return ["--requests", str(stream.requests), "--client-requests", str(stream.whole_clients)]


def _check_own_plan(run: Config, system: str | None) -> None:
    if run.plan.shards > 1 or system not in (None, "fedsgt"):
        raise InputError(
            "recommend: it compares FedSGT's own plans, of one shard; leave --system and plan.shards out"
        )


def recommended_toml(run: Config, advice: Recommendation) -> str:
    """Return a file with the recommended setting and all other settings that were given, without defaults."""
    given: dict[str, dict[str, Any]] = run.model_dump(mode="json", exclude_unset=True)
    if not advice.keep_given:
        best = advice.best
        chosen: dict[str, dict[str, Any]] = {
            "grouping": {
                "method": best.method,
                "groups": best.score.plan.groups,
                "slices": best.slices,
                "limits": best.limits,
            },
            # Without a budget: the plan was made within its passes.
            "plan": {"kind": best.kind, "passes": best.passes, "budget": None},
            "training": {"window": best.window},
        }
        given |= {section: given.get(section, {}) | keys for section, keys in chosen.items()}
    values = {
        section: {key: value for key, value in keys.items() if value is not None}
        for section, keys in given.items()
    }
    config = from_values(values)
    return f"# Written by fedsgt plan --recommend. {advice.reason()}\n\n{to_toml(config, given=True)}"


def _options_given() -> list[str]:
    """Return the options that were typed, without those that a recommendation answers."""
    context, words = click.get_current_context(), list[str]()
    for parameter in context.command.params:
        name, value = str(parameter.name), context.params.get(str(parameter.name))
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE or name in ANSWERED:
            continue
        if name == "requests" and context.params.get("purpose") is not None:
            continue  # the purpose's own stream is told instead
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
        make,
        section.kind,
        groups,
        section.budget,
        section.passes,
        seed=section.seed,
        shards=section.shards,
        window=run.training.window,
    )
    if section.kind != "tree":  # all others take no time that a bar could show
        return given()
    with progress("Searching a tree plan") as done:
        return given(progress=done)


def _counts(run: Config, likely: tuple[float, ...] | None) -> Counts:
    """Return the slices of each client in each group, as far as these are known without the data."""
    method = NEEDS_DATA.get(run.grouping.method, run.grouping.method)
    section = run.grouping
    return _group(method, run.slices_per_client(), section.groups, section.limits, section.seed, likely)


def _group(
    method: str,
    slices: list[int],
    groups: int,
    limits: Limits,
    seed: int,
    likely: tuple[float, ...] | None,
) -> Counts:
    related: dict[str, Any] = {}
    if method == "affinity":  # clients that ask most share groups; else each client keeps to few groups
        related = {"clusters": range(len(slices))} if likely is None else {"rates": likely}
    return grouping.make(method, slices, groups, limits=limits, seed=seed, **related).counts()


def _recommended(
    run: Config, scored: PlanScore, max_passes: float | None, target: float, company: int
) -> Recommendation:
    clients = run.client_count()

    def group(method: str, slices: int, groups: int, limits: Limits) -> Counts:
        return _group(method, [slices] * clients, groups, limits, run.grouping.seed, scored.stream.prior)

    # Without a limit, a recommendation may cost as much as the given setting and no more.
    cap = scored.plan.passes if max_passes is None else max_passes
    # A window changes what is learnt, so it is tried only to keep within a limit, and never against a wish.
    given = run.training.window
    windows = WINDOWS if max_passes is not None and given is None else (given,)
    # Limits are tried only where whole clients leave, and never against a wish.
    wished = run.grouping.limits
    limits = LIMITS if scored.stream.whole_clients and wished is None else (wished,)
    with progress("Searching settings") as done:
        return recommend(scored, clients, group, cap, target, done, windows, company, limits)
