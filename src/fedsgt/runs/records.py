"""The clients of a run with their records, without those that were deleted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

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
from fedsgt.data.dataset import Choice
from fedsgt.data.sources.arrow import ArrowTable
from fedsgt.data.sources.memory import GivenRecords
from fedsgt.data.sources.table import dataset_from_table
from fedsgt.errors import InputError
from fedsgt.runs.description import ClientEntry, Description
from fedsgt.runs.folder import PINNED, RunFolder, open_run
from fedsgt.runs.kept_records import IN_RUN, kept_in, read_kept, read_kept_test
from fedsgt.runs.register import Registers
from fedsgt.runs.state import NOTHING_DELETED, DeletedData, deleted_after


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
    given_test: tuple[Record, ...] | None = field(default=None, repr=False)
    """Test records of a new run whose records were given in memory, to be kept in its folder."""
    split_off: int = 0
    """Number of records that are kept for testing because the source has no part for that."""
    rows: int | None = None
    """Number of rows of the source, if the ids of its records are row numbers."""
    erased: Mapping[int, DeletedData] = field(default_factory=dict)
    """Deleted data that the clients are without, by the number of the client."""
    changed: frozenset[int] = frozenset()
    """Numbers of clients whose records changed without a deletion."""

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
        return replace(self, local=tuple(left), erased=erased)

    def mark_of(self, client: int) -> str:
        """Return the mark of the deletions that this client's records are without."""
        return self.erased.get(client, NOTHING_DELETED).mark


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
    if known is not None and kept_in(config) is not None:
        dataset, dealt = _load_kept(config, known)
    elif known is not None and registers is not None and registers.cover(range(len(_dealt_entries(known)))):
        dataset, dealt = _load_registered(config, known, registers)
    else:
        dataset = _load_source(config, config.data.limit)
        if known is None and not dataset.records:
            raise InputError(
                f"data.source {config.data.source!r}: there are no records to train on; allowed: at least one"
            )
        dealt = _dealt(config, dataset, known)
    erased = erased or {}
    # Behind the others, as in the description: a client is known by its number.
    rejoined = [
        _load_rejoined(
            config, number, entry, dataset.label_count, _is_read(number, entry, erased, only), registers
        )
        for number, entry in enumerate(known.clients if known else ())
        if entry.source is not None
    ]
    clients = ClientData(
        (*dealt, *rejoined),
        dataset.label_count,
        dataset.label_names,
        split_off=dataset.split_off,
        rows=dataset.rows if config.data.id_column == ROW else None,
    )
    return clients.without(erased)


def load_run_clients(
    folder: RunFolder,
    description: Description,
    erased: Mapping[int, DeletedData] | None = None,
    only: Collection[int] | None = None,
) -> ClientData:
    """Load the clients of an existing run, as `load_clients` does, with the records that they registered."""
    return load_clients(folder.config, description, erased, only, Registers(folder.path, description))


def split_note(config: Config, data: ClientData) -> str | None:
    """Return the sentence that a part of the records is kept for testing; None if none had to be."""
    if not data.split_off:
        return None
    stay = (
        ""
        if data.given_test is None
        else "; they stay in the run's folder, where no deletion takes them out: give a part test of records "
        "that nobody will ask to delete if that must not be"
    )
    return (
        f"no test part: {100 * config.data.test_share:.3g} % of the records ({data.split_off}), chosen by a "
        f"hash of their ids, are kept for testing and never trained on (data.test_share){stay}"
    )


def _load_source(config: Config, limit: int | None) -> Dataset:
    data = config.data
    dataset = load_dataset(
        data.source,
        columns_of(config),
        test=data.test,
        test_share=data.test_share,
        labels=data.labels,
        label_names=data.label_names,
        limit=limit,
    )
    return _without_erased_elsewhere(dataset, data.erased)


def deal_given(config: Config, given: GivenRecords) -> ClientData:
    """Deal records from memory to the clients of a new run, as the records of a source would be."""
    if config.data.partition == "remote":
        raise InputError("data is given, but data.partition is remote: there each client has its own records")
    data = config.data
    share = (data.test_share or None) if given.test is None else None
    dataset = _from_memory(config, given.train, Choice(data.limit, share))
    rows = given.test if share is None else given.train
    test = None if rows is None else _from_memory(config, rows, Choice(data.test_limit, share, test=True))
    if test is None or not test.records:
        raise InputError("data: there are no test records; give the part test, or set data.test_share")
    clients = _dealt(config, _without_erased_elsewhere(dataset, data.erased), None)
    return ClientData(
        clients,
        dataset.label_count,
        dataset.label_names,
        split_off=dataset.split_off,
        given_test=test.records,
    )


def all_given(config: Config, given: GivenRecords) -> tuple[Record, ...]:
    """Return all records from memory that may be trained on, without a choice among them."""
    return _from_memory(config, given.train, Choice()).records


def load_new_records(config: Config, source: Path | GivenRecords, known: Description) -> tuple[Record, ...]:
    """Return the records that a client of a known run comes back with: all of a file, or those in memory."""
    if isinstance(source, Path):
        return load_own(config, str(source.resolve()), known.labels).records
    names = config.data.label_names
    return dataset_from_table(
        ArrowTable(source.train, "data"), own_columns(config), labels=known.labels, label_names=names
    ).records


def _from_memory(config: Config, rows: Any, choice: Choice) -> Dataset:
    data, table = config.data, ArrowTable(rows, "data")
    return dataset_from_table(
        table, columns_of(config), labels=data.labels, label_names=data.label_names, choice=choice
    )


def _dealt_entries(known: Description) -> list[ClientEntry]:
    """Return the clients of the run's own source; those that rejoined come behind them."""
    return [entry for entry in known.clients if entry.source is None]


def _dealt(config: Config, dataset: Dataset, known: Description | None) -> tuple[Client, ...]:
    """Return the clients of the run's source, with the records that its settings deal to them."""
    data = config.data
    assert data.partition != "remote"
    entries = _dealt_entries(known) if known else None
    if entries is None and data.partition == "given" and data.clients is None:
        owners = {record.owner for record in dataset.records}
        config = config.with_clients(len(owners))
    slices = [len(entry.slices) for entry in entries] if entries else config.slices_per_client()
    return make_clients(
        dataset,
        partition=data.partition,
        clients=len(slices),
        alpha=data.alpha,
        seed=data.seed,
        slices=slices,
        known=[entry.name for entry in entries] if entries else None,
    )


def _load_registered(
    config: Config, known: Description, registers: Registers
) -> tuple[Dataset, tuple[Client, ...]]:
    """Return the run's source, and its clients with the records of it that they registered."""
    dataset = _load_source(config, config.data.limit)
    clients = _registered(config, dataset, known, registers)
    wanted = sum(len(registers.of(number) or ()) for number in range(len(clients)))
    held = sum(len(client.records) for client in clients)
    if config.data.id_column == ROW and (held < wanted or _has_other_rows(config, known, dataset, wanted)):
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


def _load_kept(config: Config, known: Description) -> tuple[Dataset, tuple[Client, ...]]:
    """Return the clients whose records are kept in the run's folder."""
    run = kept_in(config)
    assert run is not None
    clients = tuple(
        Client.simulated(entry.name, read_kept(run, number), len(entry.slices), config.data.seed)
        for number, entry in enumerate(_dealt_entries(known))
    )
    # Two clients may have records of the same id, so the data set itself is left empty.
    return Dataset((), known.labels, tuple(known.label_names) if known.label_names else None), clients


def _has_other_rows(config: Config, known: Description, dataset: Dataset, wanted: int) -> bool:
    """Whether rows came or went, also such that no client has registered."""
    if known.rows is not None:
        return dataset.rows != known.rows
    # Runs of earlier versions do not know how many rows there were.
    return config.data.limit is None and len(dataset) > wanted


def _registered(
    config: Config, dataset: Dataset, known: Description, registers: Registers
) -> tuple[Client, ...]:
    """Return the clients of the run's source; the register decides whose a record is, whatever moved."""
    entries = _dealt_entries(known)
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
    data, run = config.data, kept_in(config)
    if run is not None:
        assert labels is not None  # a run that keeps its records is made with its labels known
        return Dataset(tuple(read_kept_test(run)), labels)
    return load_dataset(
        data.source,
        columns_of(config),
        split="test",
        test=data.test,
        # Remote clients have sources of their own: this one is there to test on, and must say what to use.
        test_share=None if data.partition == "remote" else data.test_share,
        # A known run's number of labels: the test file need not declare it again.
        labels=labels if labels is not None else data.labels,
        label_names=data.label_names,
        limit=data.test_limit,
    )


def load_own(config: Config, source: str, labels: int) -> Dataset:
    """Load a source that belongs to one client of a known run: all of it is for training."""
    return load_dataset(source, own_columns(config), labels=labels, label_names=config.data.label_names)


def columns_of(config: Config) -> Columns:
    """Return the columns that the run reads of its source; owners only if they decide the clients."""
    owner = config.data.client_column if config.data.partition == "given" else None
    return replace(own_columns(config), client=owner)


def own_columns(config: Config) -> Columns:
    """Return the columns that the run reads of a source that belongs to one client."""
    images = config.model.task == "image"
    return Columns(input_columns(config), config.data.id_column, config.data.label_column, images=images)


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
    config: Config, number: int, entry: ClientEntry, labels: int, read: bool, registers: Registers | None
) -> Client:
    assert entry.source is not None
    records: Sequence[Record] = ()
    if read and entry.source == IN_RUN:
        assert registers is not None  # only runs of this format keep records
        records = read_kept(registers.run, number)
    elif read:
        found = load_own(config, entry.source, labels).records
        register = registers.of(number) if registers else None
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
