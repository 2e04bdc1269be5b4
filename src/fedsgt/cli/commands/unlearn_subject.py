"""`fedsgt unlearn --subject`: delete record ids wherever they are, in one or several runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fedsgt.cli.commands.recovering import PENDING, UNKNOWN, not_in_force, recover_and_tell
from fedsgt.cli.signals import exit_on_signals
from fedsgt.errors import InputError

if TYPE_CHECKING:
    from fedsgt.runs.folder import RunFolder
    from fedsgt.unlearning.subject import SubjectOutcome


def unlearn_subject(
    runs: Sequence[Path],
    ids: Sequence[str],
    key: str | None,
    dry_run: bool,
    retrain: bool,
    as_json: bool,
    heads: bool = True,
) -> None:
    """Delete the ids in all runs, and print one answer that says what happened where."""
    from fedsgt.api.run import Run
    from fedsgt.cli.commands.unlearn import follow_policy, preview_request, renew_and_tell
    from fedsgt.cli.views.progress import progress
    from fedsgt.cli.views.subjects import preview_text, subject_json, subject_text
    from fedsgt.reporting.accuracy import accuracy_after, known_accuracy
    from fedsgt.runs.folder import open_run
    from fedsgt.unlearning.subject import delete_subject

    # All runs are opened before anything is deleted: a misspelt one must not leave half a deletion.
    folders = [open_run(run) for run in runs]
    if dry_run:
        typer.echo(preview_text(folders, ids, preview_request, as_json))
        return
    with exit_on_signals():
        with not_in_force(key):
            _recover_all(folders)
        before = {folder.path: known_accuracy(folder) for folder in folders}
        with progress("Destroying") as done:
            outcomes = delete_subject(folders, ids, key, done)
        changes = [
            accuracy_after(found.folder, before[found.folder.path]) if found.receipt else None
            for found in outcomes
        ]
        if as_json:
            typer.echo(json.dumps(list(map(subject_json, outcomes, changes)), indent=2))
        else:
            typer.echo("\n\n".join(map(subject_text, outcomes, changes)))
        code = exit_code(outcomes)
        if code in (0, PENDING) and not any(found.stopped for found in outcomes):
            for found in outcomes:
                if found.receipt is not None and found.receipt.pending is None:
                    run = Run(found.folder)
                    if heads:
                        renew_and_tell(run, found.receipt.position, quiet=as_json)
                    if retrain:
                        follow_policy(run, found.receipt.position)
        if code:
            raise typer.Exit(code)


def exit_code(outcomes: Sequence[SubjectOutcome]) -> int:
    """Return 0 if everything asked for is deleted, 2 if nothing is, 3 if a part is, 4 if nobody can say."""
    states = {found.state for found in outcomes}
    if "not known" in states:
        return UNKNOWN
    if states & {"refused", "remote"}:
        return PENDING if states & {"deleted", "gone"} else 2
    # An id may be known to some of the runs only; one that is known to none is a mistake.
    if set.intersection(*(set(found.unknown) for found in outcomes)):
        return PENDING if "deleted" in states else 2
    return PENDING if any(found.receipt and found.receipt.pending for found in outcomes) else 0


def _recover_all(folders: Sequence[RunFolder]) -> None:
    """Complete the requests that were cut short; a run in which that fails does not hold up the others."""
    from fedsgt.unlearning.recovery import reason_of

    for folder in folders:
        try:
            recover_and_tell(folder)
        except (InputError, OSError) as error:
            typer.echo(f"fedsgt: {folder.path}: {reason_of(error)}", err=True)
