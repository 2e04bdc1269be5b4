"""`fedsgt withdraw`: a client deletes its own data, from its own machine, with its own key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedsgt.cli.commands.options import AsJson
from fedsgt.errors import InputError
from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.federation.client.withdraw import Outcome, RunShare
    from fedsgt.federation.settings import ClientSettings
    from fedsgt.unlearning.request import Deletion

FORMS = "give --record ID or --records FILE, --slice N, or --all"


def withdraw(
    client: Annotated[Path, typer.Argument(metavar="CLIENT.toml", help="The client's settings.")],
    record: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Withdraw this record; may be repeated.")
    ] = None,
    records: Annotated[
        str | None, typer.Option(metavar="FILE", help="Withdraw these records: one id a line; - reads them.")
    ] = None,
    slices: Annotated[
        list[int] | None, typer.Option("--slice", help="Withdraw this slice; may be repeated.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Withdraw all that the client has.")] = False,
    run: Annotated[
        str | None,
        typer.Option(metavar="ID", help="From this run only; the others may go on with the records."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would go; send nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete a client's own data, from all runs that it has taken part in, and from its own source."""
    from fedsgt.files.optional import check_flower

    check_flower()
    from fedsgt.federation.client.records import ClientRecords
    from fedsgt.federation.client.withdraw import locate
    from fedsgt.federation.client.withdraw import withdraw as do
    from fedsgt.federation.settings import load_client

    settings = load_client(client)
    deletion = _deletion(settings, record or [], records, slices or [], everything)
    if dry_run:
        _show_shares(locate(ClientRecords(settings), deletion, run), as_json)
        return
    outcomes = do(settings, deletion, run)
    _show(settings, outcomes, as_json)
    if any(outcome.state in ("refused", "kept") for outcome in outcomes):
        raise typer.Exit(1)


def _deletion(
    settings: ClientSettings, record: list[str], records: str | None, slices: list[int], everything: bool
) -> Deletion:
    from fedsgt.cli.commands.unlearn import read_ids
    from fedsgt.unlearning.request import Deletion

    named = bool(record) or records is not None
    if [named, bool(slices), everything].count(True) != 1:
        raise InputError(FORMS)
    if named:
        read = read_ids(records) if records is not None else ()
        return Deletion(settings.name, records=(*record, *read))
    return Deletion(settings.name, slices=tuple(slices) or None)


def _show_shares(shares: list[RunShare], as_json: bool) -> None:
    told = [
        {"run": share.enrolment.run, "records": len(share.ids), "slices": share.counts()} for share in shares
    ]
    if as_json:
        typer.echo(json.dumps(told, indent=2))
        return
    typer.echo("dry run: nothing was sent or changed")
    for share in shares:
        parts = ", ".join(f"{count} of slice {index}" for index, count in share.counts().items())
        typer.echo(f"run {share.enrolment.run}: would delete {counted(len(share.ids), 'record')} ({parts})")


def _show(settings: ClientSettings, outcomes: list[Outcome], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps([_told(outcome) for outcome in outcomes], indent=2))
        return
    for outcome in outcomes:
        if outcome.granted is None:
            wrong = outcome.state in ("refused", "kept")
            typer.echo(f"{'fedsgt: ' if wrong else ''}run {outcome.run}: {outcome.message}", err=wrong)
            continue
        groups = ", ".join(map(str, outcome.granted.groups)) or "none"
        typer.echo(
            f"run {outcome.run}: request at {outcome.granted.position}: "
            f"{counted(outcome.granted.records, 'record')} deleted, groups hit: {groups}\n"
            f"certificate {outcome.certificate}"
        )


def _told(outcome: Outcome) -> dict[str, Any]:
    """Without the certificate's text, which is in its file."""
    granted = outcome.granted.model_dump(exclude={"certificate"}) if outcome.granted else {}
    place = None if outcome.certificate is None else str(outcome.certificate)
    message = {"message": outcome.message} if outcome.message else {}
    return {"run": outcome.run, "state": outcome.state, **message, **granted, "certificate": place}
