"""The `fedsgt` command."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import fedsgt
from fedsgt.cli import config, plan
from fedsgt.errors import InputError

app = typer.Typer(
    name="fedsgt",
    help="Exact federated unlearning: plan, train, forget, prove.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(config.app, name="config")
app.command("plan")(plan.plan)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedsgt {fedsgt.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Exact federated unlearning: plan, train, forget, prove."""


def main() -> None:
    """Run the command; wrong input is one line on standard error and exit code 2."""
    try:
        app()
    except InputError as error:
        typer.echo(f"fedsgt: {error}", err=True)
        sys.exit(2)
