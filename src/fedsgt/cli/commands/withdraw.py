"""`fedsgt withdraw`: let a client delete its own data, from its own machine, with its own key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsgt.cli.commands.options import AsJson
from fedsgt.cli.commands.recovering import PENDING
from fedsgt.cli.views.deletions import outcome_json, outcome_text, share_json, shares_text
from fedsgt.errors import InputError

if TYPE_CHECKING:
    from fedsgt.federation.settings import ClientSettings
    from fedsgt.unlearning.request import Deletion

FORMS = "give --record ID or --records FILE, --slice N, or --all"


def withdraw(
    client: Annotated[Path, typer.Argument(metavar="CLIENT.toml", help="Settings of the client.")],
    record: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Withdraw this record; may be repeated.")
    ] = None,
    records: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Withdraw the records with these ids, one a line; - is standard input."
        ),
    ] = None,
    slices: Annotated[
        list[int] | None, typer.Option("--slice", help="Withdraw this slice; may be repeated.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Withdraw everything that the client has.")
    ] = False,
    run: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Withdraw from this run only; others may keep using the records."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be deleted, and send nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Delete a client's own data from all runs that it took part in, and, if it is set so, from its file."""
    from fedsgt.files.optional import check_flower

    check_flower()
    from fedsgt.federation.client.records import ClientRecords
    from fedsgt.federation.client.withdraw import locate
    from fedsgt.federation.client.withdraw import withdraw as do
    from fedsgt.federation.settings import load_client

    settings = load_client(client)
    deletion = _deletion(settings, record or [], records, slices or [], everything)
    if dry_run:
        own = ClientRecords(settings)
        shares, file = locate(own, deletion, run), own.told_of_file(run)
        told = [share_json(share) | {"file": file} for share in shares]
        typer.echo(json.dumps(told, indent=2) if as_json else shares_text(shares, file))
        return
    outcomes = do(settings, deletion, run)
    # Refused by the server, or kept for later since nobody answered: the data is not deleted yet.
    wrong = [outcome.state in ("refused", "kept") for outcome in outcomes]
    if as_json:
        typer.echo(json.dumps([outcome_json(outcome) for outcome in outcomes], indent=2))
    else:
        for outcome, failed in zip(outcomes, wrong, strict=True):
            typer.echo(("fedsgt: " if failed else "") + outcome_text(outcome), err=failed)
    # A script must notice that data is not deleted, though everything was told above.
    if any(wrong):
        raise typer.Exit(1)
    if any(outcome.state == "pending" for outcome in outcomes):
        raise typer.Exit(PENDING)


def _deletion(
    settings: ClientSettings, record: list[str], records: str | None, slices: list[int], everything: bool
) -> Deletion:
    from fedsgt.cli.commands.unlearn import read_ids
    from fedsgt.unlearning.request import Deletion

    named = bool(record) or records is not None
    things = [named, bool(slices), everything].count(True)
    if things != 1:
        raise InputError(f"{'more than one thing' if things else 'nothing'} is named to withdraw; {FORMS}")
    if named:
        read = read_ids(records) if records is not None else ()
        return Deletion(settings.name, records=(*record, *read))
    return Deletion(settings.name, slices=tuple(slices) or None)
