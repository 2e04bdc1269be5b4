"""`fedsgt config`: print the resolved configuration of a run, and the schema of its file."""

from __future__ import annotations

import json

import typer

from fedsgt.cli.commands.options import AsJson, ConfigFile, Overrides, SystemName, load_run
from fedsgt.config import Config, to_toml

app = typer.Typer(help="Show a run's configuration or its schema.", no_args_is_help=True)


@app.command()
def show(
    config: ConfigFile = None,
    system: SystemName = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Print the resolved configuration: the file, the overrides, and defaults for all else."""
    run = load_run(config, system, overrides or ())
    typer.echo(json.dumps(run.model_dump(mode="json"), indent=2) if as_json else to_toml(run).rstrip())


@app.command()
def schema() -> None:
    """Print the JSON schema of a run's file."""
    typer.echo(json.dumps(Config.model_json_schema(), indent=2))
