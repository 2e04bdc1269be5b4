"""`fedsgt unlearn`: delete records, slices or whole clients at once, with a certificate."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedsgt.cli.commands.options import AsJson, RunPath
from fedsgt.cli.commands.recovering import PENDING, in_force, not_in_force, recover_and_tell
from fedsgt.cli.signals import exit_on_signals
from fedsgt.cli.views.deletions import answer_json, answer_text, dry_run_text
from fedsgt.errors import InputError

if TYPE_CHECKING:
    from fedsgt.reporting.impact import Impact
    from fedsgt.runs.folder import RunFolder
    from fedsgt.unlearning.request import Deletion
    from fedsgt.unlearning.unlearn import Receipt

FORMS = "give --client with --records FILE, --slice N or --all; or --batch FILE"


def unlearn(
    run: RunPath,
    client: Annotated[str | None, typer.Option(help="The client's name, or its number from 0.")] = None,
    records: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Delete the records with these ids, one a line; - is standard input."
        ),
    ] = None,
    slices: Annotated[
        list[int] | None, typer.Option("--slice", help="Delete this slice; may be repeated.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Delete everything that the client has.")] = False,
    batch: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Delete several at once: a JSON list, see docs/unlearning.md."),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Idempotency key: a repeated request gets the first answer.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would die, and change nothing.")
    ] = False,
    retrain: Annotated[
        bool, typer.Option("--retrain/--no-retrain", help="Follow the run's retraining policy afterwards.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Delete records, slices or a client: modules that saw them stop serving at once and are destroyed."""
    # Options and files are read first, so that a mistake in them is said before anything is done.
    deletions = _deletions(client, records, slices or [], everything, batch)
    from fedsgt.runs.folder import open_run

    folder = open_run(run)
    if dry_run:
        found = _preview(folder, deletions)
        typer.echo(json.dumps(found.to_json(), indent=2) if as_json else dry_run_text(found))
        return
    # A request that was cut short is in force already; its destruction ends before another begins.
    with exit_on_signals():
        with not_in_force(key):
            recover_and_tell(folder)
        answer = forget(folder, deletions, key, as_json)
        if answer.pending is not None:
            raise typer.Exit(PENDING)
        if retrain:
            with in_force(answer.position):
                _retrain(folder)


def _retrain(folder: RunFolder) -> None:
    from fedsgt.cli.commands.retrain import retrain_if_due
    from fedsgt.files.locks import Busy

    try:
        retrain_if_due(folder)
    except Busy:  # the deletion is done all the same: only the training waits
        typer.echo(
            f"fedsgt: {folder.path} is being trained already; fedsgt retrain {folder.path} does the rest",
            err=True,
        )


def _preview(folder: RunFolder, deletions: Sequence[Deletion]) -> Impact:
    """Compute the effects of the request, with accuracies if torch is installed."""
    from fedsgt.cli.commands.train import set_profile
    from fedsgt.cli.views.progress import progress
    from fedsgt.reporting.impact import impact

    set_profile()  # also works without torch: the preview then has no accuracies
    with progress("Evaluating") as done:
        return impact(folder, deletions, accuracy=True, progress=done)


def forget(
    folder: RunFolder, deletions: Sequence[Deletion], key: str | None = None, as_json: bool = False
) -> Receipt:
    """Carry out the deletions as one request, and print the answer."""
    from fedsgt.cli.views.progress import progress
    from fedsgt.unlearning.unlearn import Stopped
    from fedsgt.unlearning.unlearn import unlearn as do

    # Nothing is printed before the deletion is complete: an answer means that nothing can undo it.
    try:
        with not_in_force(key), progress("Destroying") as done:
            answer = do(folder, deletions, key, done)
    except Stopped as stopped:
        answer = stopped.receipt
    except (KeyboardInterrupt, SystemExit):
        typer.echo("fedsgt: stopped; nothing was changed, the deletion is not in force", err=True)
        raise
    with in_force(answer.position):
        if as_json:
            typer.echo(json.dumps(answer_json(folder, answer), indent=2))
        else:
            typer.echo(answer_text(folder, answer))
        for path in answer.unreadable:
            typer.echo(
                f"fedsgt: {path} cannot be read, so deleted records were not taken out of it", err=True
            )
        for change in answer.key_changes:
            typer.echo(f"fedsgt: {change}", err=True)
    return answer


def _deletions(
    client: str | None, records: str | None, slices: list[int], everything: bool, batch: Path | None
) -> list[Deletion]:
    from fedsgt.unlearning.request import Deletion

    given = [records is not None, bool(slices), everything]
    if batch is not None:
        if client is not None or any(given):
            raise InputError(f"--batch stands alone; {FORMS}")
        return read_batch(batch)
    if client is None or sum(given) != 1:
        raise InputError(FORMS)
    if records is not None:
        return [Deletion(client, records=read_ids(records))]
    return [Deletion(client, slices=tuple(slices) or None)]


def read_ids(place: str) -> tuple[str, ...]:
    """Read ids, one a line; blank lines and blanks around an id do not count."""
    try:
        # Some editors put a byte order mark at the start, which would become part of the first id.
        text = sys.stdin.read() if place == "-" else Path(place).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{place}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError(f"{place}: not a text file of record ids, one a line") from None
    found = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not found:
        raise InputError(f"{place}: no record id in it; write one a line")
    return found


def read_batch(path: Path) -> list[Deletion]:
    """Read a JSON list of objects with `client` and one of `records`, `slices` and `all`."""
    from fedsgt.unlearning.request import Deletion

    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise InputError(f"{path}: not JSON ({error})") from None
    if not isinstance(entries, list) or not entries:
        raise InputError(f"{path}: a list of deletions is expected, with at least one")
    found = []
    for number, entry in enumerate(entries):
        if not _is_deletion(entry):
            raise InputError(
                f"{path}: entry {number} is not a deletion; write "
                '{"client": "3", "records": ["id"]}, {"client": "3", "slices": [0]} or '
                '{"client": "3", "all": true}'
            )
        chosen = {name: tuple(entry[name]) for name in ("records", "slices") if name in entry}
        found.append(Deletion(str(entry["client"]), **chosen))
    return found


def _is_deletion(entry: Any) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("client"), (str, int)):
        return False
    names = entry.keys() - {"client"}
    if len(names) != 1:
        return False
    (name,) = names
    value = entry[name]
    if name == "all":
        return value is True
    kind = {"records": str, "slices": int}.get(name)
    # Types are compared, as true would pass for the integer 1.
    return (
        kind is not None and isinstance(value, list) and bool(value) and all(type(x) is kind for x in value)
    )
