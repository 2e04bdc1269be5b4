"""`fedsgt unlearn`: delete records, slices or whole clients at once, with a certificate."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedsgt.cli.commands.options import AsJson, opened
from fedsgt.cli.commands.recovering import PENDING, in_force, not_in_force, recover_and_tell
from fedsgt.cli.signals import exit_on_signals
from fedsgt.cli.views.deletions import answer_json, answer_text, dry_run_text, print_text, warnings_of
from fedsgt.errors import InputError
from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.api.results.deletions import Receipt
    from fedsgt.api.run import Run
    from fedsgt.reporting.impact import Impact
    from fedsgt.runs.folder import RunFolder
    from fedsgt.unlearning.request import Deletion

FORMS = (
    "give --client with --record ID, --records FILE, --slice N or --all; or --subject ID, with one or "
    "several runs; or --batch FILE"
)


def unlearn(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folder of the run; several with --subject.")
    ],
    client: Annotated[str | None, typer.Option(help="The client's name.")] = None,
    record: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Delete this record; may be repeated.")
    ] = None,
    records: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Delete the records with these ids, one a line, exactly as they are; - is standard input.",
        ),
    ] = None,
    slices: Annotated[
        list[int] | None, typer.Option("--slice", help="Delete this slice; may be repeated.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Delete everything that the client has.")] = False,
    subject: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID", help="Delete this record id wherever it is, in all runs; may be repeated."
        ),
    ] = None,
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
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask before everything that a client has is deleted.")
    ] = False,
    retrain: Annotated[
        bool, typer.Option("--retrain/--no-retrain", help="Follow the run's retraining policy afterwards.")
    ] = True,
    heads: Annotated[
        bool,
        typer.Option(
            "--heads/--no-heads", help="Make the client's statistics anew for solved heads afterwards."
        ),
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Delete records, slices or a client: modules that saw them stop serving at once and are destroyed.

    Exit code 0 if the deletion is complete, 2 if it is not in force and nothing was changed, 3 if it is in
    force and something is still to be done.
    """
    # Options and files are read first, so that a mistake in them is said before anything is done.
    if subject:
        if client is not None or record or records is not None or slices or everything or batch is not None:
            raise InputError(f"--subject stands alone; {FORMS}")
        from fedsgt.cli.commands.unlearn_subject import unlearn_subject

        unlearn_subject(runs, subject, key, dry_run, retrain, as_json, heads)
        return
    if len(runs) > 1:
        raise InputError(f"{len(runs)} runs are given; only --subject takes several")
    deletions = _deletions(client, record or [], records, slices or [], everything, batch)
    run = opened(runs[0])
    if dry_run:
        found = preview_request(run.folder, deletions)
        typer.echo(json.dumps(found.to_json(), indent=2) if as_json else dry_run_text(found))
        return
    run.folder.check_writable()
    with exit_on_signals():
        with not_in_force(key):
            _confirm(run.folder, deletions, key, yes)
            # A request that was cut short is in force already; its destruction ends before another begins.
            recover_and_tell(run.folder)
        answer = forget(run, deletions, key, as_json)
        if answer.pending is not None:
            raise typer.Exit(PENDING)
        if heads:
            renew_and_tell(run, answer.number, quiet=as_json)
        if retrain:
            follow_policy(run, answer.number)


def _confirm(folder: RunFolder, deletions: Sequence[Deletion], key: str | None, yes: bool) -> None:
    """Ask before a client loses all that it has; where nobody can be asked, `--yes` must be given."""
    from fedsgt.unlearning.changes import client_shares
    from fedsgt.unlearning.unlearn import preview

    # A request that is wrong is refused later, and a repeated one changes nothing.
    try:
        if yes or (key is not None and folder.ledger.find(key) is not None):
            return
        _, after, body = preview(folder, deletions)
    except InputError:
        return
    shares = client_shares(after, body)
    emptied = {share.client for share in shares if not share.left}
    if not emptied:
        return
    # A client that came back may have records of an earlier time that stay, and is then not asked for.
    listed = ", ".join(
        f"client {share.client} ({counted(share.records, 'record')})"
        for share in shares
        if share.client in emptied
    )
    have = f"everything that {listed} {'has' if len(emptied) == 1 else 'have'}"
    if not sys.stdin.isatty():
        raise InputError(f"this deletes {have}; add --yes; nothing was changed")
    if not typer.confirm(f"Delete {have} in {folder.path}?", err=True):
        raise InputError("not confirmed; nothing was changed")


def renew_and_tell(run: Run, request: int, quiet: bool = False) -> None:
    """Make new statistics in place of those that a deletion ended, and print what solved heads reach.

    The deletion is in force in any case; heads of the other clients' statistics answer meanwhile.
    """
    from fedsgt.api.session import has_torch
    from fedsgt.cli.commands.heads import renew
    from fedsgt.reporting.accuracy import accuracy_after
    from fedsgt.reporting.heads import trained_heads_serve

    if not run.config.heads.solve or run.config.data.partition == "remote" or not has_torch():
        return
    with in_force(request):
        try:
            made = renew(run)
        except InputError as error:  # the deletion is done all the same, and other heads answer
            typer.echo(f"fedsgt: heads are not solved again: {error}", err=True)
            return
        if not made or quiet:
            return
        if trained_heads_serve(run.folder):
            typer.echo("heads      statistics made again with what the client has left (trained heads serve)")
            return
        found = accuracy_after(run.folder).now  # known by now
        accuracy = "" if found is None else f", {found.accuracy:.1%} right"
        typer.echo(f"heads      solved again with what the client has left{accuracy}")


def follow_policy(run: Run, request: int) -> None:
    """Retrain after a deletion if the run's policy asks for it; the deletion is in force in any case."""
    from fedsgt.cli.commands.retrain import retrain_if_due
    from fedsgt.files.locks import Busy

    with in_force(request):
        try:
            retrain_if_due(run)
        except Busy:  # the deletion is done all the same: only the training waits
            typer.echo(
                f"fedsgt: {run.path} is being trained already; fedsgt retrain {run.path} does the rest",
                err=True,
            )


def preview_request(folder: RunFolder, deletions: Sequence[Deletion]) -> Impact:
    """Compute the effects of the request, with accuracies if torch is installed."""
    from fedsgt.api.run import Run
    from fedsgt.cli.commands.train import use_profile
    from fedsgt.cli.views.progress import progress

    use_profile()
    with progress("Evaluating") as done:
        return Run(folder).preview(deletions=deletions, progress=done).detail


def forget(run: Run, deletions: Sequence[Deletion], key: str | None = None, as_json: bool = False) -> Receipt:
    """Carry out the deletions as one request, and print the answer."""
    from fedsgt.cli.views.progress import progress
    from fedsgt.unlearning.unlearn import Stopped

    # Nothing is printed before the deletion is complete: an answer means that nothing can undo it.
    stopped = False
    try:
        with not_in_force(key), progress("Destroying") as done:
            answer = run.unlearn(deletions=deletions, key=key, progress=done)
    except Stopped as stop:
        answer, stopped = run.receipt(stop.receipt), True
    with in_force(answer.number):
        if as_json:
            typer.echo(json.dumps(answer_json(run.folder, answer.detail, answer.change), indent=2))
        else:
            print_text(answer_text(run.folder, answer.detail, answer.change))
        for words in warnings_of(answer.detail):
            typer.echo(f"fedsgt: {words}", err=True)
    if stopped:  # whoever stops a deletion that is in force wants nothing else to begin
        raise typer.Exit(0 if answer.complete else PENDING)
    return answer


def _deletions(
    client: str | None,
    record: list[str],
    records: str | None,
    slices: list[int],
    everything: bool,
    batch: Path | None,
) -> list[Deletion]:
    from fedsgt.unlearning.request import Deletion

    named = bool(record) or records is not None
    given = [named, bool(slices), everything]
    if batch is not None:
        if client is not None or any(given):
            raise InputError(f"--batch stands alone; {FORMS}")
        return read_batch(batch)
    if client is None or sum(given) != 1:
        wrong = "no client is named" if client is None and any(given) else "nothing is named to delete"
        raise InputError(f"{wrong if sum(given) < 2 else 'more than one thing is named to delete'}; {FORMS}")
    if named:
        read = read_ids(records) if records is not None else ()
        return [Deletion(client, records=(*record, *read))]
    return [Deletion(client, slices=tuple(slices) or None)]


def read_ids(place: str) -> tuple[str, ...]:
    """Read ids, one a line, exactly as they are: only empty lines and a byte order mark do not count."""
    try:
        # Bytes: a reader of text would also end lines at a lone carriage return, which may be part of an id.
        content = sys.stdin.buffer.read() if place == "-" else Path(place).read_bytes()
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{place}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError(f"{place}: not a text file of record ids, one a line, in UTF-8") from None
    if "\0" in text:
        raise InputError(f"{place}: not a text file of record ids, one a line, in UTF-8")
    found = tuple(line for line in (line.removesuffix("\r") for line in text.split("\n")) if line)
    if not found:
        raise InputError(
            f"{'standard input' if place == '-' else place}: no record id in it; write one a line"
        )
    return found


def read_batch(path: Path) -> list[Deletion]:
    """Read a JSON list of objects with `client` and one of `records`, `slices` and `all`."""
    from fedsgt.unlearning.request import Deletion

    try:
        entries = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not JSON (it is not text in UTF-8)") from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply; a list of deletions is expected") from None
    except ValueError as error:
        raise InputError(f"{path}: not JSON ({error})") from None
    if not isinstance(entries, list) or not entries:
        raise InputError(f"{path}: a list of deletions is expected, with at least one")
    found = []
    for number, entry in enumerate(entries, start=1):
        if not _is_deletion(entry):
            raise InputError(
                f"{path}: entry no. {number} is not a deletion; write "
                '{"client": "a", "records": ["id"]}, {"client": "a", "slices": [0]} or '
                '{"client": "a", "all": true}'
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
