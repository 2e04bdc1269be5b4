"""`fedsgt demo`: train a small example, delete three times, predict after each, and verify."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsgt.cli.commands.evaluate import evaluate_run
from fedsgt.cli.commands.init import STARTER
from fedsgt.cli.commands.options import Overrides, opened
from fedsgt.cli.commands.report import report
from fedsgt.cli.commands.train import train_and_tell, use_profile
from fedsgt.cli.commands.unlearn import forget
from fedsgt.cli.commands.verify import verify
from fedsgt.config import load
from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.api.run import Run
    from fedsgt.runs.folder import RunFolder
    from fedsgt.unlearning.request import Deletion

RECORDS = 3  # number of records that the first deletion names


def demo(
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="RUN",
            help="Folder of the run (default: runs/demo), or of the whole federation with --federated.",
        ),
    ] = None,
    overrides: Overrides = None,
    federated: Annotated[
        bool,
        typer.Option(
            "--federated", help="Start a server and three clients as processes here, over TLS with keys."
        ),
    ] = False,
) -> None:
    """Train a small example, delete records, a slice and a client, predict after each, and verify."""
    if federated:
        _play(output or Path("federation"), overrides or ())
    else:
        _demonstrate(output or Path("runs/demo"), overrides or ())


def _play(folder: Path, overrides: Sequence[str]) -> None:
    """Play a federation whose server and clients are processes on this machine."""
    from fedsgt.files.optional import check_flower

    check_flower()
    load(STARTER, overrides)  # a mistake in these is told before a server and clients are started
    use_profile()
    from fedsgt.federation.example import Example

    Example(folder, typer.echo).play(overrides)


def _demonstrate(output: Path, overrides: Sequence[str]) -> None:
    """Train and delete in this process, and print the commands that do the same."""
    train_and_tell(load(STARTER, overrides), output)
    typer.echo()
    evaluate_run(output)
    run = opened(output)
    for number, (command, deletion) in enumerate(_deletions(run.folder)):
        typer.echo(f"\n$ fedsgt unlearn {output} {command}")
        answer = forget(run, [deletion], key=f"demo {number}")
        _predict(run)
    typer.echo(f"\n$ fedsgt verify {output}")
    try:
        verify(output)
    except typer.Exit as done:  # how a command ends, with code 0 too
        if done.exit_code:
            raise
    typer.echo(f"\n$ fedsgt report {output}")
    report(output)
    typer.echo(f"\nThe certificate of the last deletion: {answer.certificate}")
    typer.echo(f"The report, to open in a browser:     {output / 'report.html'}")
    typer.echo(f"Next: fedsgt status {output}; fedsgt audit {output}; fedsgt retrain {output}")


def _deletions(folder: RunFolder) -> list[tuple[str, Deletion]]:
    """Return three deletions, each with its command: records, a slice, and all of a client."""
    from fedsgt.runs.records import load_run_clients
    from fedsgt.unlearning.request import Deletion

    clients = load_run_clients(folder, folder.live().description).local
    # Chosen at fixed shares of the list, so that the same run always gives the same demo.
    first, second, third = (clients[len(clients) * share // 10] for share in (3, 6, 2))
    last = second.slices - 1
    slices = [part for part in first.cut() if part]  # a client of few records has empty slices
    ids = tuple(record.id for record in slices[0][:RECORDS])
    return [
        (f"--client {first.name} --records ids.txt  # {', '.join(ids)}", Deletion(first.name, records=ids)),
        (f"--client {second.name} --slice {last}", Deletion(second.name, slices=(last,))),
        (f"--client {third.name} --all --yes", Deletion(third.name)),
    ]


def _predict(run: Run) -> None:
    """Predict the test records with what is live now, and print how many are right."""
    from fedsgt.serving.predictor import Exhausted

    try:
        answer = run.predict_test()
    except Exhausted as error:
        typer.echo(f"predicting {error}")
        return
    assert answer.accuracy is not None
    typer.echo(
        f"predicting {answer.accuracy.accuracy:.1%} of {len(answer)} test records right, with "
        f"{counted(len(answer.detail.sequences), 'sequence')}, at version {answer.position} of the ledger"
    )
