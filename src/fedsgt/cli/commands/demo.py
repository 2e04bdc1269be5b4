"""`fedsgt demo`: train a small example, delete three times, predict after each, and verify."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsgt.cli.commands.evaluate import evaluate_run
from fedsgt.cli.commands.options import Overrides
from fedsgt.cli.commands.report import report
from fedsgt.cli.commands.train import STARTER, ready_to_train, train_run
from fedsgt.cli.commands.unlearn import forget
from fedsgt.cli.commands.verify import verify
from fedsgt.config import load

if TYPE_CHECKING:
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
    ready_to_train()
    from fedsgt.federation.example import Example

    Example(folder, typer.echo).play(overrides)


def _demonstrate(output: Path, overrides: Sequence[str]) -> None:
    """Train and delete in this process, and print the commands that do the same."""
    train_run(load(STARTER, overrides), output)
    typer.echo()
    evaluate_run(output)
    from fedsgt.runs.folder import open_run

    folder = open_run(output)
    for number, (command, deletion) in enumerate(_deletions(folder)):
        typer.echo(f"\n$ fedsgt unlearn {output} {command}")
        answer = forget(folder, [deletion], key=f"demo {number}")
        _predict(folder)
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


def _predict(folder: RunFolder) -> None:
    """Predict the test records with what is live now, and print how many are right."""
    from fedsgt.runs.records import load_test
    from fedsgt.serving.predictor import Exhausted, Predictor

    test = load_test(folder.config, folder.description.labels)
    try:
        answer = Predictor(folder).predict(test.records)
    except Exhausted as error:
        typer.echo(f"predicting {error}")
        return
    right = sum(found == wanted for found, wanted in zip(answer.labels, test.labels, strict=True))
    typer.echo(
        f"predicting {right / len(test):.1%} of {len(test)} test records right, with "
        f"{len(answer.sequences)} sequences, at version {answer.position} of the ledger"
    )
