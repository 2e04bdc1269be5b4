"""The server's Flower app: the ordinary build, with the clients behind Flower's grid."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedsgt.config import load
from fedsgt.engine.events import Listener, Note, append_line, relay
from fedsgt.engine.tally import Tally, print_lines
from fedsgt.errors import InputError
from fedsgt.files.locks import Busy
from fedsgt.stack import profile

if TYPE_CHECKING:
    from fedsgt.build.client_access import ClientAccess

BUSY_SECONDS = 30.0  # longer than an app outlives the SuperLink that started it
Report = Callable[..., None]
app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train a run, make the statistics that it lacks, or train modules of a folder again to verify them.

    Events go into the file `progress`, a line of JSON each, with the outcome in the last line; they are
    printed if no such file is given.
    """
    # Torch reads its environment when it is imported, so this comes first.
    os.environ.update(profile.environment())
    given = {name: str(value) for name, value in context.run_config.items()}
    progress = Path(given["progress"]) if given.get("progress") else None
    report = _reporter(progress)
    tell = relay(progress) if progress else print_lines(Tally(), _print)
    try:
        if given["task"] == "rebuild":
            _rebuild(grid, given, tell, report)
        elif given["task"] == "heads":
            _renew_heads(grid, given, tell)
        else:
            _train(grid, given, tell)
    except InputError as error:
        report("error", message=str(error))
        raise
    report("done")


def _reporter(progress: Path | None) -> Report:
    """Return a function that reports the outcome of a task and the progress of a rebuild."""

    def report(event: str, **values: Any) -> None:
        if progress is not None:
            append_line(progress, {"event": event, **values})
        elif values:
            _print(f"{event}: {', '.join(map(str, values.values()))}")

    return report


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _train(grid: Grid, given: dict[str, str], tell: Listener) -> None:
    # Imported here, because these import torch, whose environment is set in `main`.
    from fedsgt.build.train import train
    from fedsgt.unlearning.recovery import recover

    if not given["config"]:
        raise InputError("config: not given; name the run's TOML file with --run-config 'config=\"...\"'")
    file = Path(given["config"])
    run = load(file)
    output = Path(given["output"] or Path("runs") / file.stem)
    access = _access(grid, run.data.partition, given, tell)
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            train(run, output, tell, recover, access)
            return
        except Busy:
            # The app of a SuperLink that was killed lives on for some seconds.
            if time.monotonic() > until:
                raise
            tell(Note("another training of this run is still there; waiting for its end"))
            time.sleep(BUSY_SECONDS / 10)


def _renew_heads(grid: Grid, given: dict[str, str], tell: Listener) -> None:
    from fedsgt.build.statistics import renew_statistics
    from fedsgt.runs.folder import open_run

    folder = open_run(Path(given["output"]))
    renew_statistics(folder, tell, _access(grid, folder.config.data.partition, given, tell))


def _rebuild(grid: Grid, given: dict[str, str], tell: Listener, report: Report) -> None:
    from fedsgt.proof.rebuild import rebuild
    from fedsgt.runs.folder import read_run
    from fedsgt.runs.work import held_work

    path = Path(given["output"])
    with held_work(path):
        folder = read_run(path)
        access = _access(grid, folder.config.data.partition, given, tell)
        rebuild(folder, int(given["seed"]), lambda line: report("rebuild", **line), access)


def _access(grid: Grid, partition: str, given: dict[str, str], tell: Listener) -> ClientAccess:
    if partition != "remote":
        raise InputError(
            f"data.partition is {partition}, but the Flower app trains runs of remote clients only; "
            "train this run with fedsgt train"
        )
    from fedsgt.federation.keys import known_keys
    from fedsgt.federation.server.remote import RemoteClients
    from fedsgt.federation.settings import load_server

    keys = known_keys(load_server(given["server"]).clients)
    return RemoteClients(grid, keys, tell)
