"""`fedsgt server`: run the SuperLink, to which clients connect, and the desk, where they file deletions."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsgt.cli.commands.train import use_profile
from fedsgt.errors import InputError
from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.federation.processes import Child
    from fedsgt.federation.server.superlink import SuperLink
    from fedsgt.federation.settings import ServerSettings

TICK_SECONDS = 2.0  # how long a new client's key may wait to be noticed
START_SECONDS = 60.0  # a busy machine takes long to import what the desk needs
DESK_PATIENCE = 40.0  # seconds in which the desk may finish the deletions under way


def server(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="Folder of the server, made by fedsgt keys, or its server.toml."
        ),
    ],
) -> None:
    """Run the server of a federation until Ctrl-C: clients connect to it and file deletions at its desk."""
    use_profile()  # the ServerApp, which trains, inherits the environment
    from fedsgt.federation.processes import Child, flower_command, only_one, stop_signals
    from fedsgt.federation.settings import load_server

    settings = load_server(folder)
    flower_command("flower-superlink")  # raises and says what to install, before Flower is imported
    from fedsgt.federation.server.superlink import SuperLink, check_port

    with only_one(settings.folder, "server"), stop_signals() as stop:
        # The desk's port is checked first: starting the SuperLink takes seconds, and would be in vain.
        check_port(settings.host, settings.desk_port)
        with SuperLink(settings) as link:
            typer.echo(f"SuperLink ready on {settings.host}:{settings.port}; log {link.child.log}")
            command = [sys.executable, "-m", "fedsgt.federation.server.desk_service", str(settings.folder)]
            # A process of its own, as the SuperLink is: if one ends, the other is stopped in order.
            desk = Child(command, settings.folder / "desk.log", os.environ)
            try:
                _wait_for(desk, settings)
                _show_next(settings)
                _watch(link, desk, stop)
            finally:
                desk.stop(DESK_PATIENCE)
    typer.echo("stopped")


def _wait_for(desk: Child, settings: ServerSettings) -> None:
    address = f"{settings.host}:{settings.desk_port}"
    until = time.monotonic() + START_SECONDS
    while not _answers(settings.host, settings.desk_port):
        if desk.ended or time.monotonic() > until:
            raise InputError(f"the desk does not get ready on {address}: {desk.last_words()} ({desk.log})")
        time.sleep(0.1)
    typer.echo(f"desk ready on {address}; log {desk.log}")


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def _watch(link: SuperLink, desk: Child, stop: threading.Event) -> None:
    """Admit new clients until the stop; if a process ends by itself, say so and end too."""
    while True:
        for name, child in (("SuperLink", link.child), ("desk", desk)):
            if child.ended:
                typer.echo(
                    f"fedsgt: the {name} ended by itself: {child.last_words()} ({child.log})", err=True
                )
                raise typer.Exit(1)
        found = link.register_clients()
        if found.names:
            typer.echo(f"{counted(len(found.names), 'client')} may connect: {', '.join(found.names)}")
        for problem in found.problems:
            typer.echo(f"fedsgt: {problem}", err=True)
        if stop.wait(TICK_SECONDS):
            return


def _show_next(settings: ServerSettings) -> None:
    typer.echo(
        "Next, on each client's machine: fedsgt client CLIENT/client.toml\n"
        "Then, on this one:              fedsgt train CONFIG --engine flower\n"
        f"A further client's key goes into {settings.clients}/NAME.pub. Ctrl-C ends the server."
    )
