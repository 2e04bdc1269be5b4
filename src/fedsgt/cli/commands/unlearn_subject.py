"""`fedsgt unlearn --subject`: delete record ids wherever they are, in one or several runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import typer

from fedsgt.cli.commands.recovering import PENDING, recover_and_tell
from fedsgt.cli.signals import exit_on_signals


def unlearn_subject(
    runs: Sequence[Path], ids: Sequence[str], key: str | None, dry_run: bool, retrain: bool, as_json: bool
) -> None:
    """Delete the ids in all runs, and print one answer that says what happened where."""
    from fedsgt.cli.commands.unlearn import follow_policy, preview_request
    from fedsgt.cli.views.progress import progress
    from fedsgt.cli.views.subjects import preview_text, subject_json, subject_text
    from fedsgt.runs.folder import open_run
    from fedsgt.unlearning.subject import delete_subject

    # All runs are opened before anything is deleted: a misspelt one must not leave half a deletion.
    folders = [open_run(run) for run in runs]
    if dry_run:
        typer.echo(preview_text(folders, ids, preview_request, as_json))
        return
    with exit_on_signals():
        for folder in folders:
            recover_and_tell(folder)
        with progress("Destroying") as done:
            outcomes = delete_subject(folders, ids, key, done)
        if as_json:
            typer.echo(json.dumps([subject_json(found) for found in outcomes], indent=2))
        else:
            typer.echo("\n\n".join(map(subject_text, outcomes)))
        in_force = [found.receipt for found in outcomes if found.receipt is not None]
        incomplete = any(found.state == "refused" for found in outcomes) or any(
            receipt.pending for receipt in in_force
        )
        if incomplete and in_force:
            raise typer.Exit(PENDING)
        # Nothing was changed anywhere: an error, or an id that no run ever had.
        if incomplete or all(found.state == "unknown" for found in outcomes):
            raise typer.Exit(2)
        for found in outcomes if retrain else ():
            if found.receipt is not None:
                follow_policy(found.folder, found.receipt)
