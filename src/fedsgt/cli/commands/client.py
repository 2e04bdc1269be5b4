"""`fedsgt client`: run one client of a federation on its own machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsgt.cli.commands.train import use_profile
from fedsgt.errors import InputError

if TYPE_CHECKING:
    from fedsgt.federation.settings import ClientSettings


def client(
    config: Annotated[
        Path, typer.Argument(metavar="CLIENT", help="Folder of the client, or its client.toml.")
    ],
) -> None:
    """Run a client until Ctrl-C: it stays connected, and trains on its own data for the server."""
    from fedsgt.api.session import check_torch

    check_torch()
    use_profile()  # the process that trains inherits the environment
    from fedsgt.federation.client.supernode import supervise_node
    from fedsgt.federation.processes import flower_command, only_one
    from fedsgt.federation.settings import load_client

    settings = load_client(config)
    flower_command("flower-supernode")
    _check_files(settings, config)
    # Two nodes with one key would throw each other off the server.
    with only_one(settings.folder, "client"):
        typer.echo(f"{settings.name}: data {settings.data.source}, server {settings.server}")
        # Withdrawals come before any training, so that no run learns from withdrawn records again.
        _send_pending(settings)
        supervise_node(settings, config, typer.echo)
    typer.echo(f"{settings.name}: stopped")


def _send_pending(settings: ClientSettings) -> None:
    """Send withdrawals that were cut short; if that fails again, say so and train all the same."""
    from fedsgt.federation.client.withdraw import send_pending

    try:
        for outcome in send_pending(settings):
            told = f": {outcome.message}" if outcome.message else ""
            typer.echo(f"{settings.name}: withdrawal from run {outcome.run} {outcome.state}{told}")
    except InputError as error:
        typer.echo(f"fedsgt: {error}", err=True)


def _check_files(settings: ClientSettings, config: Path) -> None:
    """Check that all files which the settings name are there, before anything is started."""
    needed = {"ca": settings.ca, "key": settings.key, "salt": settings.salt}
    if os.path.isabs(settings.data.source):  # otherwise it is a name on the hub
        needed["data.source"] = Path(settings.data.source)
    for name, path in needed.items():
        if not path.exists():
            raise InputError(f"{path}: no such file; put it there, or set {name} in {config}")
