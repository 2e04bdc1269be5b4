"""`fedsgt verify`: train the served modules again from retained data, and compare every bit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from fedsgt.cli.commands.options import AsJson, RunPath
from fedsgt.cli.commands.recovering import recover_and_tell
from fedsgt.cli.commands.train import ready_to_train
from fedsgt.cli.signals import exit_on_signals
from fedsgt.cli.views.progress import progress
from fedsgt.cli.views.proof import verification_text

if TYPE_CHECKING:
    from fedsgt.proof.rebuild_process import Rebuild
    from fedsgt.runs.folder import RunFolder

SAME, WRONG, UNKNOWN = 0, 1, 3  # exit codes; 2 is that of wrong input


def verify(
    run: RunPath,
    sample: Annotated[
        int | None,
        typer.Option(metavar="K", min=1, help="Rebuild only K modules, drawn at random, and their parents."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the draw, to repeat it (default: a new one).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Rebuild the served modules from retained data, with deleted records absent, and compare their hashes.

    Exit code 0 if all are the same, 1 if one is not, 3 if some cannot be compared on this machine.
    """
    from fedsgt.proof.verify import verify as rebuild_and_compare
    from fedsgt.runs.folder import open_run

    folder = open_run(run)
    # Bytes of a request that was cut short may still be there, and would fail the verification. Where nothing
    # can be written, the verification names the request instead.
    if folder.writable:
        recover_and_tell(folder)
    with exit_on_signals(), progress("Rebuilding") as done:
        found = rebuild_and_compare(folder, sample, seed, done, rebuild=_rebuild(folder))
    if as_json:
        typer.echo(json.dumps({"run": str(run), **found.to_json()}, indent=1))
    else:
        typer.echo(verification_text(found))
    raise typer.Exit(WRONG if found.failed else SAME if found.passed else UNKNOWN)


def _rebuild(folder: RunFolder) -> Rebuild | None:
    """Return a function that rebuilds on remote clients; None if the records are here."""
    # The rebuilding process inherits the environment that is set here.
    if folder.config.data.partition != "remote":
        ready_to_train()
        return None
    from fedsgt.files.optional import check_flower

    check_flower()
    from fedsgt.federation.server.tasks import rebuild_remotely

    return rebuild_remotely(folder.config)
