"""`fedsgt retrain` and `fedsgt rejoin`: train dead modules again, and take clients back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsgt.cli.commands.options import RunPath
from fedsgt.cli.commands.recovering import recover_and_tell
from fedsgt.cli.commands.train import ready_to_train, stoppable, train_run
from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.runs.folder import RunFolder


def retrain(
    run: RunPath,
    if_due: Annotated[
        bool,
        typer.Option("--if-due", help="Train only if the run's policy (unlearning.retrain) asks for it."),
    ] = False,
) -> None:
    """Train dead modules again on the retained data; live ones are kept, and serving goes on meanwhile."""
    from fedsgt.runs.folder import open_run

    folder = open_run(run)
    folder.check_writable()
    # Requests that were cut short are finished first: what they hit must not be trained on.
    recover_and_tell(folder)
    if if_due:
        if not retrain_if_due(folder):
            typer.echo(f"{run}: not due (policy: {folder.config.unlearning.retrain})")
        return
    train_run(folder.config, folder.path)


def retrain_if_due(folder: RunFolder) -> bool:
    """Train dead modules again if the run's policy asks for it; return whether it did."""
    from fedsgt.unlearning.retrain import due

    # The accuracy is measured only if the policy asks for it.
    reason = due(folder, folder.live(), lambda: _accuracy(folder))
    if reason is None:
        return False
    typer.echo(f"retraining ({folder.config.unlearning.retrain}): {reason}", err=True)
    train_run(folder.config, folder.path)
    return True


def rejoin(
    run: RunPath,
    client: Annotated[str, typer.Option(help="Name of the client that comes back.")],
    data: Annotated[Path, typer.Option(metavar="FILE", help="Parquet file of the client's new records.")],
    slices: Annotated[int, typer.Option(min=1, max=10_000, help="Number of slices to cut them into.")] = 1,
    groups: Annotated[int, typer.Option(min=1, max=200, help="Number of new groups to put these in.")] = 1,
) -> None:
    """Take a client back with new data, in new groups on top of what is live; live modules stay."""
    from fedsgt.runs.folder import open_run

    folder = open_run(run)
    folder.check_writable()
    recover_and_tell(folder)
    ready_to_train()
    from fedsgt.cli.views.training import training_view
    from fedsgt.unlearning.rejoin import rejoin as take_in

    with stoppable(), training_view() as view:
        joined = take_in(folder, client, data, slices, groups, view)
    typer.echo(
        f"{run}: {joined.name} with {counted(joined.records, 'record')} in groups "
        f"{', '.join(map(str, joined.groups))}; {counted(joined.trained, 'module')} trained, "
        "those that were live are as they were"
    )


def _accuracy(folder: RunFolder) -> float:
    """Measure the accuracy of what is served, on the test records."""
    ready_to_train()
    from fedsgt.cli.views.progress import progress
    from fedsgt.serving.evaluation import evaluate

    with progress("Evaluating") as done:
        found = evaluate(folder, progress=done)
    return found.strategies[folder.config.serving.strategy].accuracy
