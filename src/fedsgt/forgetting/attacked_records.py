"""The records that membership inference is tried on: deleted ones, and unseen ones to compare them with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from fedsgt.data import ROW, Client, Record, labels_of
from fedsgt.data.sources import read_part
from fedsgt.data.sources.table import dataset_from_table
from fedsgt.errors import InputError
from fedsgt.files.encoding import seed_of
from fedsgt.forgetting.membership import match
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.records import ClientData, columns_of, load_run_clients, load_test
from fedsgt.runs.state import DeletedData, Live


@dataclass(frozen=True)
class AttackedRecords:
    """Deleted and unseen records, and the clients with and without the deleted ones."""

    records: tuple[Record, ...] = field(repr=False)
    """Deleted records, then the same number of unseen ones, once or several times.

    Every unseen record has the label of the deleted one it is compared with, and that one's client as owner.
    """
    count: int
    """Number of deleted records among them."""
    duplicates: int
    """Number of deleted records left out because a retained record has the same content."""
    deleted: int
    """Number of all deleted records at hand."""
    whole: ClientData = field(repr=False)
    """Clients before all deletions."""
    left: ClientData = field(repr=False)
    """Clients as they are now."""


def find_attacked_records(
    folder: RunFolder, live: Live, given: Path | None, limit: int | None, seed: int
) -> AttackedRecords:
    """Find the deleted records, in the run's source or the file `given`, and match them with unseen ones."""
    data = load_run_clients(folder, live.description)
    whole = data if given is None else _with_deleted_from(folder, data, live.deleted, given)
    left = whole.without(live.deleted)
    gone = _deleted(whole, left)
    if not gone:
        raise InputError(_not_found(folder, given))
    # A deleted record that equals a retained one is still learnt: to recognise it would be no failure.
    retained = {record.digest for client in left.local for record in client.records}
    to_attack = [record for record in gone if record.digest not in retained]
    duplicates = len(gone) - len(to_attack)
    if limit is not None:
        rng = np.random.default_rng(seed_of("attacked", seed))
        # Sorted again, so that the limit chooses records and does not change their order.
        to_attack = [to_attack[row] for row in sorted(rng.permutation(len(to_attack))[:limit].tolist())]
    records, count = _matched(to_attack, _unseen(folder, whole), seed)
    return AttackedRecords(records, count, duplicates, len(gone), whole, left)


def _with_deleted_from(
    folder: RunFolder, data: ClientData, erased: Mapping[int, DeletedData], file: Path
) -> ClientData:
    """Return the clients with those records of the file that the ledger says were deleted from them."""
    if folder.config.data.id_column == ROW:
        raise InputError(
            "--deleted: the run's records have no ids, so a file's cannot be recognised; the run's source "
            "still has the deleted ones"
        )
    columns = replace(columns_of(folder.config), client=folder.config.data.client_column)
    names = folder.config.data.label_names
    rows = read_part(file, columns)
    found = dataset_from_table(rows, columns, labels=data.labels, label_names=names).records
    clients = list(data.local)
    for number, gone in erased.items():
        clients[number] = _with_deleted(clients[number], gone, found)
    return replace(data, local=tuple(clients))


def _with_deleted(client: Client, gone: DeletedData, found: Iterable[Record]) -> Client:
    """Return the client with its deleted records added from the found ones."""
    known = {record.id for record in client.records}
    owned = tuple(record for record in found if record.owner == client.name and record.id not in known)
    # The client itself says which of them were deleted: by slice, or by salted hash.
    retained = replace(client, records=owned).retained(gone.slices, gone.records)
    kept = {record.id for record in retained.records}
    deleted = (record for record in owned if record.id not in kept)
    return replace(client, records=(*client.records, *deleted))


def _deleted(whole: ClientData, left: ClientData) -> list[Record]:
    """Return all deleted records; each is owned by the client that held it."""
    found: list[Record] = []
    for before, after in zip(whole.local, left.local, strict=True):
        kept = {record.id for record in after.records}
        found += [replace(record, owner=before.name) for record in before.records if record.id not in kept]
    return found


def _unseen(folder: RunFolder, whole: ClientData) -> list[Record]:
    """Return the test records whose content no client ever held."""
    # By content, not by id: a test record that a client held under another id was learnt all the same.
    seen = {record.digest for client in whole.local for record in client.records}
    test = load_test(folder.config, whole.labels).records
    return [record for record in test if record.digest not in seen]


def _matched(
    deleted: Sequence[Record], unseen: Sequence[Record], seed: int
) -> tuple[tuple[Record, ...], int]:
    """Return deleted records with unseen ones of the same labels behind them, and how many were deleted."""
    rows, others = match(labels_of(deleted), labels_of(unseen), seed_of("matched", seed))
    if not len(rows):
        raise InputError(
            "no test record that clients never held has the label of a deleted record; add test records"
        )
    chosen = [deleted[row] for row in rows]
    compared = [
        replace(unseen[other], owner=record.owner)
        for once in others
        for other, record in zip(once, chosen, strict=True)
    ]
    # Numbers in place of ids, since clients may have the same ids.
    numbered = (replace(record, id=f"{row:09d}") for row, record in enumerate((*chosen, *compared)))
    return tuple(numbered), len(chosen)


def _not_found(folder: RunFolder, given: Path | None) -> str:
    if given is not None:
        return f"{given}: it has no record that was deleted from a client of this run"
    return (
        f"{folder.path}: the deleted records are not in its source any more, as it should be; "
        "if you have a copy to experiment with, give it with --deleted FILE.parquet"
    )
