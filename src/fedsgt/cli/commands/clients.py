"""`fedsgt clients`: list a run's clients and what is left of them."""

from __future__ import annotations

import json

import typer

from fedsgt.cli.commands.options import AsJson, RunPath, opened
from fedsgt.words import printable


def clients(path: RunPath, as_json: AsJson = False) -> None:
    """List the clients of a run: records, slices, groups, and what is left of them."""
    found = opened(path).clients
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
        return
    width = max(len("client"), *(len(printable(one.name)) for one in found))
    typer.echo(f"{'client':<{width}}  records     left  slices  groups")
    for one in found:
        groups = ", ".join(map(str, one.groups))
        where = "  (on a machine of its own)" if one.remote else ""
        gone = "  nothing is left" if not one.left else ""
        typer.echo(
            f"{printable(one.name):<{width}}  {one.records:>7}  {one.left:>7}  {one.slices:>6}  "
            f"{groups}{where}{gone}"
        )
    records, left = sum(one.records for one in found), sum(one.left for one in found)
    typer.echo(f"{'all':<{width}}  {records:>7}  {left:>7}")
