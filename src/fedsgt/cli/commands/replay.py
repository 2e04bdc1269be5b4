"""`fedsgt replay`: apply certificates of deletions to a run that was restored from a backup."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedsgt.cli.commands.options import RunPath
from fedsgt.words import counted


def replay(
    run: RunPath,
    certificates: Annotated[
        list[Path] | None,
        typer.Argument(metavar="CERTIFICATES...", help="Certificates that clients or auditors hold."),
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="Public key that signed them (default: the keys in the run).")
    ] = None,
    accept_missing: Annotated[
        bool,
        typer.Option("--accept-missing", help="Go on without requests whose certificates nobody has."),
    ] = False,
) -> None:
    """Apply deletions that others hold certificates of to a run that is older than it has been."""
    from fedsgt.runs.folder import open_run
    from fedsgt.unlearning.replay import replay as apply

    found = apply(open_run(run, restoring=True), certificates or [], key, accept_missing)
    for position, receipt in found.receipts.items():
        done = "was applied before" if receipt.repeated else "applied"
        typer.echo(
            f"request no. {position} {done}, as no. {receipt.position} now: "
            f"{counted(receipt.records, 'record')} deleted; certificate {receipt.certificate}"
        )
    for position in found.known:
        typer.echo(f"request no. {position}: nothing to do; the run has it, or has no such data")
    for position in found.missing:
        typer.echo(f"request no. {position} is NOT applied: there is no certificate of it")
    new = sum(not receipt.repeated for receipt in found.receipts.values())
    typer.echo(f"{run}: {counted(new, 'deletion')} replayed; the run can be used")
