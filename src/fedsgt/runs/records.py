"""The records of a run and who holds them, without those that were deleted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fedsgt.config import Config
from fedsgt.data import Client, Columns, Table, derive_salt, load_table, make_clients
from fedsgt.data.remote_client import Holder, Registered
from fedsgt.errors import InputError
from fedsgt.runs.description import Description
from fedsgt.runs.folder import PINNED, open_run
from fedsgt.runs.state import Erased, erased_after


@dataclass(frozen=True)
class Holdings:
    """Clients, in the order of their numbers, and where their records' content is."""

    clients: tuple[Client, ...] = field(repr=False)
    tables: Mapping[str, Table] = field(repr=False)
    """By name of the client; several may share one."""
    labels: int
    label_names: tuple[str, ...] | None
    registered: tuple[Registered, ...] = ()
    """Instead of all these, clients who hold their records themselves."""

    @property
    def holders(self) -> tuple[Holder, ...]:
        return self.registered or self.clients

    def without(self, erased: Mapping[int, Erased]) -> Holdings:
        """What is left of the clients, and nothing else in the tables."""
        clients = [
            client.retained(gone.slices, gone.records) if (gone := erased.get(number)) else client
            for number, client in enumerate(self.clients)
        ]
        tables = {client.name: _only(self.tables[client.name], client) for client in clients}
        return Holdings(tuple(clients), tables, self.labels, self.label_names)


def load_holdings(
    run: Config,
    known: Description | None = None,
    erased: Mapping[int, Erased] | None = None,
    only: Collection[int] | None = None,
) -> Holdings:
    """The clients of a new run, or those of a known one without what was deleted from them.

    Of clients who came back, only those of these numbers are read: the others stand there without records.
    """
    data, slices = run.data, run.slices_per_client()
    if data.partition == "remote":
        raise InputError("the records of this run are with its clients, not here; each client has its own")
    table = load_table(data.source, columns_of(run), labels=data.labels, limit=data.limit)
    if data.erased:
        elsewhere: set[str] = set().union(*(_deleted_in(text) for text in data.erased))
        table = table.take(row for row, record in enumerate(table.ids) if record not in elsewhere)
    clients = make_clients(
        table,
        partition=data.partition,
        clients=data.clients,
        alpha=data.alpha,
        seed=data.seed,
        slices=slices,
        known=[entry.name for entry in known.clients[: data.clients]] if known else None,
    )
    tables = {client.name: table for client in clients}
    for number, entry in enumerate(known.clients if known else ()):
        if entry.source is not None:
            gone = erased[number].slices if erased and number in erased else frozenset()
            read = (only is None or number in only) and len(gone) < len(entry.slices)
            own = (
                load_table(entry.source, own_columns(run), labels=table.label_count)
                if read
                else table.take([])
            )
            tables[entry.name] = own
            clients = (*clients, enrolled(run, entry.name, len(entry.slices), own))
    held = Holdings(clients, tables, table.label_count, table.label_names)
    return held.without(erased or {})


def enrolled(run: Config, name: str, slices: int, table: Table) -> Client:
    """A client whose records are a source of their own."""
    seed = run.data.seed
    return Client(name, table.records(), slices, f"{seed}/{name}", derive_salt(seed, name))


def load_test(run: Config, labels: int | None = None) -> Table:
    """The test records, which no client holds."""
    data = run.data
    return load_table(
        data.source,
        columns_of(run),
        split="test",
        test=data.test,
        labels=labels if labels is not None else data.labels,
        limit=data.test_limit,
    )


def columns_of(run: Config) -> Columns:
    """The columns that the run reads of its source."""
    owner = run.data.client_column if run.data.partition == "given" else None
    return Columns(input_columns(run), run.data.id_column, run.data.label_column, owner)


def input_columns(run: Config) -> tuple[str, ...]:
    default = ["image"] if run.model.task == "image" else ["sentence"]
    return tuple(run.data.input_columns or default)


def _deleted_in(text: str) -> set[str]:
    """Ids of the records of its source that another run has deleted, up to a position of its ledger."""
    pinned = PINNED.fullmatch(text)
    if pinned is None:
        raise InputError(f"data.erased: {text!r} names no position of its ledger; write FOLDER@POSITION")
    other = open_run(Path(pinned[1]))
    live = other.live()
    requests = [entry for entry in live.requests if entry.position <= int(pinned[2])]
    erased = erased_after({}, requests)
    base = [number for number, client in enumerate(live.description.clients) if client.source is None]
    whole = load_holdings(other.config, live.description, only=())
    left = whole.without(erased)
    return {
        record.id
        for number in base
        for record in set(whole.clients[number].records) - set(left.clients[number].records)
    }


def own_columns(run: Config) -> Columns:
    """Those of a source that belongs to one client."""
    return Columns(input_columns(run), run.data.id_column, run.data.label_column)


def _only(table: Table, client: Client) -> Table:
    return table.take(table.index_of(record.id for record in client.records))
