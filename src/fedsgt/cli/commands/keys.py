"""`fedsgt keys`: make the keys by which server and clients of a federation know each other."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from fedsgt.errors import InputError


def keys(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder in which those of server and clients are made.")
    ],
    client: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Make a folder for this client; may be repeated.")
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(help="Name or address of the server, as clients connect to it; may be repeated."),
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port of the SuperLink (default: 9092).")
    ] = None,
    desk_port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port of the desk (default: 9093).")
    ] = None,
    no_server: Annotated[
        bool, typer.Option("--no-server", help="Make only clients' folders: for a client's own machine.")
    ] = False,
    server: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Address of the SuperLink for these clients.")
    ] = None,
    desk: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Address of the desk for these clients.")
    ] = None,
) -> None:
    """Make certificates, keys and starter settings of a federation; only what is missing is made."""
    from fedsgt.federation.keys import make_authority, make_client

    names = client or []
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; give a folder to make the keys in")
    _check(names, [server, desk])  # first: a mistake must not leave half a federation behind
    if no_server and (not names or host or port or desk_port):
        raise InputError(
            "--no-server makes clients only: give --client, and no --host, --port or --desk-port"
        )
    # The server comes first: clients are told the address in its certificate.
    made = [] if no_server else make_authority(folder, host or [], port=port, desk_port=desk_port)
    for name in names:
        made += make_client(folder, name, server=server, desk=desk, enrol=not no_server)
    for path in made:
        typer.echo(f"made {path}")
    if not made:
        typer.echo(f"{folder}: nothing was missing")
    typer.echo("\nnext")
    for line in _for_clients(folder, names) if no_server else _for_operator(folder, names):
        typer.echo(f"  {line}")


def _check(names: Sequence[str], addresses: Sequence[str | None]) -> None:
    """Check names and addresses before anything is made."""
    from fedsgt.federation.settings import check_address, check_name

    for position, name in enumerate(names):
        if check_name(name) in names[:position]:
            raise InputError(f"--client {name} is given twice; give each client a name of its own")
    for address in addresses:
        if address is not None:
            check_address(address)


def _for_operator(folder: Path, names: Sequence[str]) -> Iterator[str]:
    yield f"keep {folder / 'ca.key'} to yourself: anybody who has it can pass for the server"
    for name in names:
        yield f"say in {folder / name / 'client.toml'} where the client's records are (data.source)"
    yield f"fedsgt server {shlex.quote(str(folder / 'server'))}"
    for name in names:
        yield f"{_start(folder, name)}   (on the client's machine, with its folder)"


def _for_clients(folder: Path, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        own = folder / name
        yield f"give {own / 'node.pub'} to the server's operator, who puts it into server/clients/{name}.pub"
        if not (own / "ca.crt").exists():
            yield f"put the operator's ca.crt into {own / 'ca.crt'}"
        yield f"say in {own / 'client.toml'} where server, desk and the client's records (data.source) are"
        yield _start(folder, name)


def _start(folder: Path, name: str) -> str:
    return f"fedsgt client {shlex.quote(str(folder / name / 'client.toml'))}"
