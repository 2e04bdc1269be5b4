"""`fedsgt demo`: train a small example, delete until no module is live, predict after each, and verify."""

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
from fedsgt.cli.commands.unlearn import forget, renew_and_tell
from fedsgt.cli.commands.verify import verify
from fedsgt.config import Config, load
from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.api.run import Run
    from fedsgt.runs.folder import RunFolder
    from fedsgt.unlearning.request import Deletion

DEMO = Path("runs/demo")
RECORDS = 3  # number of records that the first deletion names
KEY, LAST = "demo", 2  # keys of the deletions that are shown one by one, and the last of these


def demo(
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="RUN",
            help="Folder of the run (default: runs/demo, or runs/demo-2 beside another demo), or of the "
            "whole federation with --federated.",
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
    """Train a small example, delete until no module is live, predict after each deletion, and verify."""
    if federated:
        _play(output or Path("federation"), overrides or ())
    else:
        config = load(STARTER, overrides or ())
        folder = output or _free_folder(config)
        if _is_finished(folder):
            typer.echo(f"{folder}: this demo is finished; nothing was changed. Give another folder with -o")
        else:
            _demonstrate(config, folder)


def _free_folder(config: Config) -> Path:
    """Return runs/demo, or the first of runs/demo-2, ... if something else, or all of it, is there before."""
    from fedsgt.runs.folder import holds_something_else

    folder, passed = DEMO, list[str]()
    while holds_something_else(folder, config) or _is_finished(folder):
        passed.append(str(folder))
        folder = DEMO.with_name(f"{DEMO.name}-{len(passed) + 1}")
    if passed:
        typer.echo(
            f"{', '.join(passed)}: something else, or a demo that is finished or of another version or "
            f"settings, left as it is; this one is in {folder}"
        )
    return folder


def _is_finished(path: Path) -> bool:
    """Whether a demo in this folder has made all its deletions: training it again would begin without end."""
    from fedsgt.runs.artefacts import DESCRIPTION
    from fedsgt.runs.folder import open_run
    from fedsgt.serving.heads import solves

    if not (path / DESCRIPTION).exists():
        return False
    folder = open_run(path)
    asked = folder.ledger.find(f"{KEY} {LAST}") is not None
    return asked and solves(folder.config) and not any(folder.live().prefixes(folder.present()))


def _play(folder: Path, overrides: Sequence[str]) -> None:
    """Play a federation whose server and clients are processes on this machine."""
    from fedsgt.files.optional import check_flower

    check_flower()
    load(STARTER, overrides)  # a mistake in these is told before a server and clients are started
    use_profile()
    from fedsgt.federation.example import Example

    Example(folder, typer.echo).play(overrides)


def _demonstrate(config: Config, output: Path) -> None:
    """Train and delete in this process, and print the commands that do the same."""
    from fedsgt.serving.heads import solves

    train_and_tell(config, output)
    typer.echo()
    evaluate_run(output)
    run = opened(output)
    for number, (command, deletion) in enumerate(_deletions(run.folder)):
        typer.echo(f"\n$ fedsgt unlearn {output} {command}")
        answer = forget(run, [deletion], key=f"{KEY} {number}")
        renew_and_tell(run, answer.number)
        _predict(run)
    _verify(output)
    if solves(run.config):
        _delete_the_rest(run)
        _verify(output)
    # Last, as a deletion destroys it.
    typer.echo(f"\n$ fedsgt report {output}")
    report(output)
    typer.echo(f"\nThe certificate of the third deletion: {answer.certificate}")
    typer.echo(f"The report, to open in a browser:     {output / 'report.html'}")
    typer.echo(f"Next: fedsgt status {output}; fedsgt audit {output}; fedsgt retrain {output}")


def _verify(output: Path) -> None:
    typer.echo(f"\n$ fedsgt verify {output}")
    try:
        verify(output)
    except typer.Exit as done:  # how a command ends, with code 0 too
        if done.exit_code:
            raise


def _delete_the_rest(run: Run) -> None:
    """Delete one slice after another until no module is live: solved heads go on answering."""
    typer.echo("\nMore slices are deleted, until no module is live:")
    while (found := _next_slice(run.folder)) is not None:
        receipt = run.unlearn(deletions=[found], key=f"{KEY} {found.client} {found.slices}")
        answer = run.predict_test()
        assert answer.accuracy is not None
        typer.echo(
            f"request no. {receipt.number:<3} ({found.client}, slice {(found.slices or ())[0]}): "
            f"{counted(len(run.folder.live().modules()), 'module')} live, "
            f"{answer.accuracy.accuracy:.1%} of {len(answer)} test records right"
        )
    answer = run.predict_test()
    assert answer.accuracy is not None
    if answer.detail.sequences:
        typer.echo("one slice is left, which is kept")
    else:
        typer.echo(
            f"no module is live, and the service goes on: {answer.accuracy.accuracy:.1%} right, by a head on "
            f"the bare backbone that is solved from the {counted(answer.detail.solved_from, 'record')} left"
        )


def _next_slice(folder: RunFolder) -> Deletion | None:
    """Return a slice in the first group of a live sequence; None once no module is live."""
    from fedsgt.runs.records_left import records_left
    from fedsgt.unlearning.request import Deletion

    live = folder.live()
    roots = {entry.groups[0] for entry in live.modules()}
    left = [
        (records, entry.name, index, live.description.groups_of[number][index])
        for number, entry in enumerate(live.description.clients)
        for index, records in enumerate(records_left(live, number))
        if records
    ]
    # The smallest first, so that many records are left at the end.
    # The last slice of all stays, as without any record nothing would answer.
    served = sorted(one for one in left if one[3] in roots)
    return Deletion(served[0][1], slices=(served[0][2],)) if served and len(left) > 1 else None


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
