"""The clients of a run with their records, without those that were deleted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fedsgt.config import Config
from fedsgt.data import (
    ROW,
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
from fedsgt.runs.folder import PINNED, RunFolder, open_run
from fedsgt.runs.register import Register, Registers
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
    registers: Registers | None = None,
) -> ClientData:
    """Load the clients of a new run, or those of a known run without what was deleted from them.

    A client of a known run gets the records that it registered, and no other rows of the source. A client
    that rejoined has a source of its own. With `only`, such a source is read for the clients of these numbers
    alone; the other rejoined clients are returned without records.
    """
    if config.data.partition == "remote":
        raise InputError("the records of this run are with its clients, not here; each client has its own")
    if known is not None and registers is not None and registers.cover(range(config.data.clients)):
        dataset, dealt = _load_registered(config, known, registers)
    else:
        dataset = _load_source(config, config.data.limit)
        dealt = _dealt(config, dataset, known)
    erased = erased or {}
    # Behind the others, as in the description: a client is known by its number.
    rejoined = [
        _load_rejoined(
            config,
            entry,
            dataset.label_count,
            _is_read(number, entry, erased, only),
            registers.of(number) if registers else None,
        )
        for number, entry in enumerate(known.clients if known else ())
        if entry.source is not None
    ]
    clients = ClientData((*dealt, *rejoined), dataset.label_count, dataset.label_names)
    return clients.without(erased)


def load_run_clients(
    folder: RunFolder,
    description: Description,
    erased: Mapping[int, DeletedData] | None = None,
    only: Collection[int] | None = None,
) -> ClientData:
    """Load the clients of an existing run, as `load_clients` does, with the records that they registered."""
    return load_clients(folder.config, description, erased, only, Registers(folder.path, description))


def _load_source(config: Config, limit: int | None) -> Dataset:
    data = config.data
    dataset = load_dataset(data.source, columns_of(config), labels=data.labels, limit=limit)
    return _without_erased_elsewhere(dataset, data.erased)


def _dealt(config: Config, dataset: Dataset, known: Description | None) -> tuple[Client, ...]:
    """Return the clients of the run's source, with the records that its settings deal to them."""
    data = config.data
    assert data.partition != "remote"
    return make_clients(
        dataset,
        partition=data.partition,
        clients=data.clients,
        alpha=data.alpha,
        seed=data.seed,
        slices=config.slices_per_client(),
        known=[entry.name for entry in known.clients[: data.clients]] if known else None,
    )


def _load_registered(
    config: Config, known: Description, registers: Registers
) -> tuple[Dataset, tuple[Client, ...]]:
    """Return the run's source, and its clients with the records of it that they registered."""
    dataset = _load_source(config, config.data.limit)
    clients = _registered(config, dataset, known, registers)
    wanted = sum(len(registers.of(number) or ()) for number in range(config.data.clients))
    held = sum(len(client.records) for client in clients)
    if config.data.id_column == ROW and (held < wanted or _has_more_rows(config, dataset, wanted)):
        # A row's number says nothing once rows came or went: a deleted one could come back under another.
        raise InputError(
            f"{config.data.source}: its number of rows changed since this run was made, and with "
            f"data.id_column {ROW} nobody can tell which were deleted; put the file back as it was"
        )
    if config.data.limit is not None and held < wanted:
        # Rows that appeared since may have taken the place of registered ones within the limit.
        dataset = _load_source(config, None)
        clients = _registered(config, dataset, known, registers)
    return dataset, clients


def _has_more_rows(config: Config, dataset: Dataset, wanted: int) -> bool:
    return config.data.limit is None and len(dataset) > wanted


def _registered(
    config: Config, dataset: Dataset, known: Description, registers: Registers
) -> tuple[Client, ...]:
    """Return the clients of the run's source; the register decides whose a record is, whatever moved."""
    entries = known.clients[: config.data.clients]
    numbers = {entry.name: number for number, entry in enumerate(entries)}
    guessed = _guessed_owners(config, dataset, known)
    shares: list[list[Record]] = [[] for _ in entries]
    for record in dataset.records:
        # A given owner is the only one who can have registered the record.
        first = numbers.get(record.owner) if record.owner is not None else guessed.get(record.id)
        others = () if record.owner is not None else range(len(entries))
        for number in (*(() if first is None else (first,)), *others):
            register = registers.of(number)
            if register is not None and record.id in register:
                shares[number].append(record)
                break
    return tuple(
        Client.simulated(entry.name, share, len(entry.slices), config.data.seed)
        for entry, share in zip(entries, shares, strict=True)
    )


def _guessed_owners(config: Config, dataset: Dataset, known: Description) -> dict[str, int]:
    """Return whom each record would be dealt to now: its owner, as long as no row of the source changed."""
    # Only a guess, which saves a look into every client's register.
    if config.data.partition == "given":
        return {}
    try:
        clients = _dealt(config, dataset, known)
    except InputError:  # too few records are left to deal
        return {}
    return {record.id: number for number, client in enumerate(clients) for record in client.records}


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


def _load_rejoined(
    config: Config, entry: ClientEntry, labels: int, read: bool, register: Register | None
) -> Client:
    assert entry.source is not None
    records: Sequence[Record] = ()
    if read:
        found = load_dataset(entry.source, own_columns(config), labels=labels).records
        records = [record for record in found if register is None or record.id in register]
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
    whole = load_run_clients(other, live.description, only=())
    left = whole.without(deleted_after({}, requests))
    gone: set[str] = set()
    for entry, before, after in zip(live.description.clients, whole.local, left.local, strict=True):
        if entry.source is None:
            gone |= {record.id for record in before.records} - {record.id for record in after.records}
    return gone
