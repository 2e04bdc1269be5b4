"""`fedsgt audit`: check that no file of a run depends on deleted data."""

from __future__ import annotations

import json

import typer

from fedsgt.cli.commands.options import AsJson, RunPath, opened
from fedsgt.cli.views.proof import audit_text


def audit(run: RunPath, as_json: AsJson = False) -> None:
    """List every file of the run and what it depends on; exit code 1 if any depends on deleted data."""
    found = opened(run).audit()
    typer.echo(json.dumps(found.to_json(), indent=2) if as_json else audit_text(found.findings))
    if not found.clean:
        raise typer.Exit(1)
