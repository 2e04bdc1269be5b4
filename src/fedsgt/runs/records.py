"""The clients of a run with their records, without those that were deleted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from fedsgt.config import Config
from fedsgt.data import (
    AnyClient,
    Client,
    Columns,
    Dataset,
    Record,
    RemoteClient,
    load_dataset,
    make_clients,
)
from fedsgt.errors import InputError
from fedsgt.runs.description import ClientEntry, Description
from fedsgt.runs.folder import PINNED, open_run
from fedsgt.runs.state import DeletedData, deleted_after


@dataclass(frozen=True)
class ClientData:
    """The clients of a run, in the order of their numbers, and the labels of their records."""

    local: tuple[Client, ...] = field(repr=False)
    """Clients whose records are on this machine."""
    labels: int
    """Number of labels."""
    label_names: tuple[str, ...] | None
    remote: tuple[RemoteClient, ...] = ()
    """Clients that keep their records on their own machines. A run has local clients or remote ones."""

    @property
    def clients(self) -> tuple[AnyClient, ...]:
        """All clients, of whichever kind the run has."""
        return self.remote or self.local

    def without(self, erased: Mapping[int, DeletedData]) -> ClientData:
        """Return the local clients without what was deleted, given by the number of the client."""
        left = [
            client.retained(gone.slices, gone.records) if (gone := erased.get(number)) else client
            for number, client in enumerate(self.local)
        ]
        return replace(self, local=tuple(left))


def load_clients(
    config: Config,
    known: Description | None = None,
    erased: Mapping[int, DeletedData] | None = None,
    only: Collection[int] | None = None,
) -> ClientData:
    """Load the clients of a new run, or those of a known run without what was deleted from them.

    A client that rejoined has a source of its own. With `only`, such a source is read for the clients of
    these numbers alone; the other rejoined clients are returned without records.
    """
    data = config.data
    if data.partition == "remote":
        raise InputError("the records of this run are with its clients, not here; each client has its own")
    dataset = load_dataset(data.source, columns_of(config), labels=data.labels, limit=data.limit)
    dealt = make_clients(
        _without_erased_elsewhere(dataset, data.erased),
        partition=data.partition,
        clients=data.clients,
        alpha=data.alpha,
        seed=data.seed,
        slices=config.slices_per_client(),
        known=[entry.name for entry in known.clients[: data.clients]] if known else None,
    )
    erased = erased or {}
    # Behind the others, as in the description: a client is known by its number.
    rejoined = [
        _load_rejoined(config, entry, dataset.label_count, _is_read(number, entry, erased, only))
        for number, entry in enumerate(known.clients if known else ())
        if entry.source is not None
    ]
    clients = ClientData((*dealt, *rejoined), dataset.label_count, dataset.label_names)
    return clients.without(erased)


def load_test(config: Config, labels: int | None = None) -> Dataset:
    """Load the test records, which no client holds."""
    data = config.data
    return load_dataset(
        data.source,
        columns_of(config),
        split="test",
        test=data.test,
        # A known run's number of labels: the test file need not declare it again.
        labels=labels if labels is not None else data.labels,
        limit=data.test_limit,
    )


def columns_of(config: Config) -> Columns:
    """Return the columns that the run reads of its source; owners only if they decide the clients."""
    owner = config.data.client_column if config.data.partition == "given" else None
    return replace(own_columns(config), client=owner)


def own_columns(config: Config) -> Columns:
    """Return the columns that the run reads of a source that belongs to one client."""
    return Columns(input_columns(config), config.data.id_column, config.data.label_column)


def input_columns(config: Config) -> tuple[str, ...]:
    """Return the names of the input columns."""
    # The usual names on the hub for images and for single texts.
    default = ["image"] if config.model.task == "image" else ["sentence"]
    return tuple(config.data.input_columns or default)


def _is_read(
    number: int, entry: ClientEntry, erased: Mapping[int, DeletedData], only: Collection[int] | None
) -> bool:
    """Return whether the source of a rejoined client is read: not if the client has deleted everything."""
    gone = erased[number].slices if number in erased else frozenset()
    # Its file need not exist any more, and nothing of it would be kept.
    return (only is None or number in only) and len(gone) < len(entry.slices)


def _load_rejoined(config: Config, entry: ClientEntry, labels: int, read: bool) -> Client:
    assert entry.source is not None
    records: tuple[Record, ...] = ()
    if read:
        records = load_dataset(entry.source, own_columns(config), labels=labels).records
    return Client.simulated(entry.name, records, len(entry.slices), config.data.seed)


def _without_erased_elsewhere(dataset: Dataset, runs: Collection[str]) -> Dataset:
    """Return the data set without the records that those other runs have deleted."""
    # Records are compared by id, because other runs may have dealt the same source to other clients.
    gone = set[str]().union(*map(_deleted_in, runs))
    return replace(dataset, records=tuple(record for record in dataset.records if record.id not in gone))


def _deleted_in(pinned_run: str) -> set[str]:
    """Return the ids that another run deleted from its source, up to the given position of its ledger."""
    pinned = PINNED.fullmatch(pinned_run)
    if pinned is None:
        raise InputError(
            f"data.erased: {pinned_run!r} names no position of its ledger; write FOLDER@POSITION"
        )
    other = open_run(Path(pinned[1]))
    live = other.live()
    requests = [entry for entry in live.requests if entry.position <= int(pinned[2])]
    # Records of rejoined clients are in sources of their own, so those need not be read.
    whole = load_clients(other.config, live.description, only=())
    left = whole.without(deleted_after({}, requests))
    gone: set[str] = set()
    for entry, before, after in zip(live.description.clients, whole.local, left.local, strict=True):
        if entry.source is None:
            gone |= {record.id for record in before.records} - {record.id for record in after.records}
    return gone
