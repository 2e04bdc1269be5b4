"""`fedsgt audit`: every file of a run, what it depends on, and whether any byte depends on deleted data."""

from __future__ import annotations

import json
from dataclasses import asdict

import typer

from fedsgt.cli.commands.options import AsJson, RunPath
from fedsgt.words import counted


def audit(run: RunPath, as_json: AsJson = False) -> None:
    """List every file of the run and what it depends on; fail if any depends on deleted data."""
    from fedsgt.proof.audit import audit as look
    from fedsgt.runs.folder import open_run

    found = look(open_run(run))
    bad = [finding for finding in found if finding.problem is not None]
    if as_json:
        typer.echo(json.dumps({"ok": not bad, "files": [asdict(finding) for finding in found]}, indent=2))
    else:
        width = max(len(finding.name) for finding in found)
        for finding in found:
            mark = f"  PROBLEM: {finding.problem}" if finding.problem else ""
            typer.echo(f"{finding.name:<{width}}  {finding.depends_on}{mark}")
        verdict = f"{len(bad)} with a problem" if bad else "none depends on deleted data"
        typer.echo(f"\n{counted(len(found), 'file')}: {verdict}")
        for finding in bad:
            typer.echo(f"  {finding.name}: {finding.problem}")
    if bad:
        raise typer.Exit(1)
