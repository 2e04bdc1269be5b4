"""`fedsgt audit`: check that no file of a run depends on deleted data."""

from __future__ import annotations

import json
from dataclasses import asdict

import typer

from fedsgt.cli.commands.options import AsJson, RunPath
from fedsgt.cli.views.proof import audit_text


def audit(run: RunPath, as_json: AsJson = False) -> None:
    """List every file of the run and what it depends on; exit code 1 if any depends on deleted data."""
    from fedsgt.proof.audit import audit as look
    from fedsgt.runs.folder import open_run

    found = look(open_run(run))
    bad = [finding for finding in found if finding.problem is not None]
    if as_json:
        typer.echo(json.dumps({"ok": not bad, "files": [asdict(finding) for finding in found]}, indent=2))
    else:
        typer.echo(audit_text(found))
    if bad:
        raise typer.Exit(1)
