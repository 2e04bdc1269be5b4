"""The server's Flower app: the ordinary build, with the clients behind Flower's grid."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedsgt.build.display import Lines, Relay
from fedsgt.config import load
from fedsgt.errors import InputError
from fedsgt.files.locks import Busy
from fedsgt.stack import profile

if TYPE_CHECKING:
    from fedsgt.build.site import Site

BUSY_SECONDS = 30.0
app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train the run of a configuration, or train modules of a folder again to verify them.

    What happens is told in the file `progress`, or printed if there is none.
    """
    os.environ.update(profile.environment())  # before torch is imported
    given = {name: str(value) for name, value in context.run_config.items()}
    display = Relay(Path(given["progress"])) if given.get("progress") else Lines()
    try:
        if given["task"] == "rebuild":
            _rebuild(grid, given, display)
        else:
            _train(grid, given, display)
    except InputError as error:
        display.say("error", message=str(error))
        raise
    display.say("done")


def _train(grid: Grid, given: dict[str, str], display: Relay | Lines) -> None:
    from fedsgt.build.train import train
    from fedsgt.unlearning.unlearn import recover

    if not given["config"]:
        raise InputError("config: not given; name the run's TOML file with --run-config 'config=\"...\"'")
    file = Path(given["config"])
    run = load(file)
    output = Path(given["output"] or Path("runs") / file.stem)
    site = _site(grid, run.data.partition, given, display)
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            train(run, output, display, recover, site)
            return
        except Busy:
            # The app of a SuperLink that was killed lives on for some seconds.
            if time.monotonic() > until:
                raise
            display.note("another training of this run is still there; waiting for its end")
            time.sleep(BUSY_SECONDS / 10)


def _rebuild(grid: Grid, given: dict[str, str], display: Relay | Lines) -> None:
    from fedsgt.proof.rebuild import rebuild
    from fedsgt.runs.folder import open_run

    folder = open_run(Path(given["output"]))
    site = _site(grid, folder.config.data.partition, given, display)
    rebuild(folder, int(given["seed"]), lambda line: display.say("rebuild", **line), site)


def _site(grid: Grid, partition: str, given: dict[str, str], display: Relay | Lines) -> Site:
    if partition != "remote":
        raise InputError(
            f"data.partition is {partition}, but the Flower app trains runs of remote clients only; "
            "train this run with fedsgt train"
        )
    from fedsgt.federation.keys import known_keys
    from fedsgt.federation.server.remote import RemoteClients
    from fedsgt.federation.settings import load_server

    keys = known_keys(load_server(given["server"]).clients)
    return RemoteClients(grid, keys, display.note)
