"""`fedsgt status`: show a run's live modules, its requests so far, and how long it will last."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from fedsgt.cli.commands.options import AsJson, RunPath, opened
from fedsgt.errors import InputError

if TYPE_CHECKING:
    from fedsgt.reporting.status import RunStatus
    from fedsgt.runs.folder import RunFolder

WIDTH = 110  # width of the page if it is written into a file


def status(
    path: RunPath,
    requests: Annotated[
        int, typer.Option(min=1, max=1000, help="Number of further requests to look ahead.")
    ] = 10,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Continue until Ctrl-C: draw again, or print a line, at each change."),
    ] = False,
    every: Annotated[
        float, typer.Option(min=0.1, max=3600, metavar="SECONDS", help="Time between two looks of --watch.")
    ] = 2.0,
    as_json: AsJson = False,
) -> None:
    """Show what is live, which requests came, and how likely the run still serves after further requests."""
    from fedsgt.cli.views.status import StatusView, headline

    if math.isnan(every):  # in no range, and so in every range to click
        raise InputError("--every: nan is no time; give seconds, from 0.1 to 3600")
    run = opened(path)
    if watch:
        _watch(path, run.folder, requests, every, as_json)
        return
    found = run.status(requests).detail
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
        return
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(StatusView(console).page(path, found))
        return
    # A file has no width of its own, and the headline with the run's path must stay in one line.
    console = Console(highlight=False, width=max(WIDTH, len(headline(path, found))))
    with console.capture() as page:
        console.print(StatusView(console).page(path, found))
    typer.echo("\n".join(text.rstrip() for text in page.get().splitlines()))


def _watch(run: Path, folder: RunFolder, requests: int, every: float, as_json: bool) -> None:
    from rich.live import Live as Screen

    from fedsgt.cli.views.status import StatusView, status_line

    console = Console(highlight=False)
    changes = _changes(folder, requests, every)
    try:
        if console.is_terminal and not as_json:
            with Screen(console=console, auto_refresh=False, vertical_overflow="crop") as screen:
                for found in changes:
                    screen.update(StatusView(console).page(run, found), refresh=True)
        # The output is no terminal or is for programs, so each change is a line.
        for found in changes:
            typer.echo(json.dumps(found.to_json()) if as_json else status_line(run, found))
    # Ctrl-C is the way to end a watch, so it is no error.
    except KeyboardInterrupt:
        return


def _changes(folder: RunFolder, requests: int, every: float) -> Iterator[RunStatus]:
    """Yield the status now, and again whenever the ledger or a module has changed."""
    from fedsgt.reporting.status import run_status
    from fedsgt.runs.health import module_health

    seen = None
    while True:
        # Training adds modules one by one and writes to the ledger only now and then.
        health = module_health(folder, folder.live())
        now = health.live.position, [module.verdict for module in health.modules.values()]
        if now != seen:
            seen = now
            yield run_status(folder, requests)
        time.sleep(every)
