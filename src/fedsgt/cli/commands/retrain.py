"""`fedsgt retrain` and `fedsgt rejoin`: train dead modules again, and take clients back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsgt.cli.commands.options import RunPath, opened
from fedsgt.cli.commands.recovering import recover_and_tell
from fedsgt.cli.commands.train import stoppable, use_profile
from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.api.run import Run


def retrain(
    path: RunPath,
    if_due: Annotated[
        bool,
        typer.Option("--if-due", help="Train only if the run's policy (unlearning.retrain) asks for it."),
    ] = False,
) -> None:
    """Train dead modules again on the retained data; live ones are kept, and serving goes on meanwhile."""
    run = opened(path)
    run.folder.check_writable()
    # Requests that were cut short are finished first: what they hit must not be trained on.
    recover_and_tell(run.folder)
    if not if_due:
        _train(run)
    elif not retrain_if_due(run):
        typer.echo(f"{path}: not due (policy: {run.config.unlearning.retrain})")


def retrain_if_due(run: Run) -> bool:
    """Train dead modules again if the run's policy asks for it; return whether it did."""
    from fedsgt.cli.views.progress import progress

    use_profile()
    with progress("Evaluating") as done:  # only one of the policies measures anything
        reason = run.retraining_due(progress=done)
    if reason is None:
        return False
    typer.echo(f"retraining ({run.config.unlearning.retrain}): {reason}", err=True)
    _train(run)
    return True


def _train(run: Run) -> None:
    use_profile()
    from fedsgt.api.train import training_text
    from fedsgt.cli.views.training import training_view

    with stoppable(), training_view() as view:
        done = run.retrain(progress=view)
    assert done is not None
    typer.echo(training_text(run.path, done))


def rejoin(
    path: RunPath,
    client: Annotated[str, typer.Option(help="Name of the client that comes back.")],
    data: Annotated[Path, typer.Option(metavar="FILE", help="File of the client's new records.")],
    slices: Annotated[int, typer.Option(min=1, max=10_000, help="Number of slices to cut them into.")] = 1,
    groups: Annotated[int, typer.Option(min=1, max=200, help="Number of new groups to put these in.")] = 1,
) -> None:
    """Take a client back with new data, in new groups on top of what is live; live modules stay."""
    run = opened(path)
    run.folder.check_writable()
    recover_and_tell(run.folder)
    use_profile()
    from fedsgt.cli.views.training import training_view

    with stoppable(), training_view() as view:
        joined = run.rejoin(client, data, slices=slices, groups=groups, progress=view)
    typer.echo(
        f"{path}: {joined.name} with {counted(joined.records, 'record')} in groups "
        f"{', '.join(map(str, joined.groups))}; {counted(joined.trained, 'module')} trained, "
        "those that were live are as they were"
    )
