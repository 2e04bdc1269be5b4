"""`fedsgt records`: list a client's records with the ids that a deletion names."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from fedsgt.cli.commands.options import AsJson, RunPath
from fedsgt.words import printable


def records(
    run: RunPath,
    client: Annotated[str, typer.Option(help="The client's name.")],
    as_json: AsJson = False,
) -> None:
    """List a client's records that are not deleted: id, slice and group. Only for the client's eyes."""
    from fedsgt.runs.folder import open_run
    from fedsgt.runs.records import load_run_clients
    from fedsgt.unlearning.request import enrolments, has_simulated_clients

    folder = open_run(run)
    live = folder.live()
    # A client that came back has a number for each time; no other client's records are read.
    numbers = enrolments(live.description, client, has_simulated_clients(folder))
    clients = load_run_clients(folder, live.description, live.deleted, only=numbers).local
    found = [
        {"client": clients[number].name, "id": record.id, "slice": index, "group": group}
        for number in numbers
        for index, (part, group) in enumerate(
            zip(clients[number].cut(), live.description.groups_of[number], strict=True)
        )
        for record in part
    ]
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    typer.echo("client\tslice\tgroup\tid")
    # A person sees ids that cannot steer the terminal; a file or a program gets them as they are.
    seen = printable if sys.stdout.isatty() else str
    for entry in found:
        line = f"{entry['client']}\t{entry['slice']}\t{entry['group']}\t{seen(entry['id'])}"
        typer.echo(line, color=True)  # without it, click takes what looks like a colour out of the id
