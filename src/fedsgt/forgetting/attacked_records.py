"""The records that membership inference is tried on: deleted ones, and unseen ones to compare them with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from fedsgt.data import Record, Table
from fedsgt.data.sources.arrow import table_from_arrow
from fedsgt.data.sources.parquet import read_parquet
from fedsgt.data.table import ROW
from fedsgt.errors import InputError
from fedsgt.files.encoding import seed_of
from fedsgt.forgetting.membership import match
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.records import Holdings, columns_of, load_holdings, load_test
from fedsgt.runs.state import Erased, Live


@dataclass(frozen=True)
class AttackedRecords:
    """Deleted and unseen records, and the clients with and without the deleted ones."""

    table: Table = field(repr=False)
    """Deleted records, then the same number of unseen ones, once or several times.

    Every unseen record has the label of the deleted one it is compared with, and that one's client as owner.
    """
    count: int
    """Number of deleted records in the table."""
    duplicates: int
    """Number of deleted records left out because a retained record has the same content."""
    deleted: int
    """Number of all deleted records at hand."""
    whole: Holdings = field(repr=False)
    """Clients before all deletions."""
    left: Holdings = field(repr=False)
    """Clients as they are now."""


def find_attacked_records(
    folder: RunFolder, live: Live, given: Path | None, limit: int | None, seed: int
) -> AttackedRecords:
    """Find the deleted records, in the run's source or the file `given`, and match them with unseen ones."""
    held = load_holdings(folder.config, live.description)
    whole = held if given is None else _with_file(folder, held, live.erased(), given)
    left = whole.without(live.erased())
    gone = _gone(whole, left)
    if not len(gone):
        raise InputError(_not_found(folder, given))
    # A record that a retained one equals was learnt after all: to recognise it would be no failure.
    retained = {record.digest for client in left.clients for record in client.records}
    rows = [row for row, record in enumerate(gone.records()) if record.digest not in retained]
    if limit is not None:
        rng = np.random.default_rng(seed_of("attacked", seed))
        rows = sorted(rng.permutation(rows)[:limit].tolist())
    table, count = _matched(gone.take(rows), _unseen(folder, whole), seed)
    duplicates = sum(record.digest in retained for record in gone.records())
    return AttackedRecords(table, count, duplicates, len(gone), whole, left)


def _with_file(folder: RunFolder, held: Holdings, erased: Mapping[int, Erased], file: Path) -> Holdings:
    """Return the clients with those records of the file that the ledger says were deleted from them."""
    if folder.config.data.id_column == ROW:
        raise InputError(
            "--deleted: the run's records have no ids, so a file's cannot be recognised; the run's source "
            "still has the deleted ones"
        )
    columns = replace(columns_of(folder.config), client=folder.config.data.client_column)
    rows = read_parquet(file, columns.names())
    table = table_from_arrow(rows, columns, where=str(file), labels=held.labels, limit=None)
    clients, tables = list(held.clients), dict(held.tables)
    for number, gone in erased.items():
        client = clients[number]
        known = {record.id for record in client.records}
        records = _owned(table, client.name, known)
        kept = {
            record.id
            for record in replace(client, records=records).retained(gone.slices, gone.records).records
        }
        deleted = tuple(record for record in records if record.id not in kept)
        clients[number] = replace(client, records=(*client.records, *deleted))
        own = tables[client.name]
        tables[client.name] = _joined(
            own.take(own.index_of(record.id for record in client.records)),
            table.take(table.index_of(record.id for record in deleted)),
        )
    return Holdings(tuple(clients), tables, held.labels, held.label_names)


def _owned(table: Table, name: str, known: set[str]) -> tuple[Record, ...]:
    assert table.owners is not None
    rows = zip(table.records(), table.owners, strict=True)
    return tuple(record for record, owner in rows if owner == name and record.id not in known)


def _gone(whole: Holdings, left: Holdings) -> Table:
    """Return all deleted records, owned by the clients that held them."""
    found = Table((), (), (), (), whole.labels)
    for before, after in zip(whole.clients, left.clients, strict=True):
        kept = {record.id for record in after.records}
        table = whole.tables[before.name]
        rows = table.index_of(record.id for record in before.records if record.id not in kept)
        # Numbered, because two clients may have records of the same id.
        part = _numbered(table.take(rows), len(found))
        found = _joined(found, replace(part, owners=(before.name,) * len(rows)))
    return found


def _joined(one: Table, other: Table) -> Table:
    labels, contents = one.labels + other.labels, one.contents + other.contents
    owners = None if one.owners is None or other.owners is None else one.owners + other.owners
    return replace(one, ids=one.ids + other.ids, labels=labels, contents=contents, owners=owners)


def _unseen(folder: RunFolder, whole: Holdings) -> Table:
    """Return the test records whose content no client ever held."""
    test = load_test(folder.config, whole.labels)
    seen = {record.digest for client in whole.clients for record in client.records}
    return test.take(row for row, record in enumerate(test.records()) if record.digest not in seen)


def _matched(gone: Table, unseen: Table, seed: int) -> tuple[Table, int]:
    rows, others = match(gone.labels, unseen.labels, seed_of("matched", seed))
    if not len(rows):
        raise InputError("no test record that clients never held has the label of a deleted record")
    deleted = gone.take(rows.tolist())
    assert deleted.owners is not None
    compared = _numbered(unseen.take(others.ravel().tolist()), len(rows))
    owned = replace(compared, owners=deleted.owners * len(others))
    return _joined(_numbered(deleted, 0), owned), len(rows)


def _not_found(folder: RunFolder, given: Path | None) -> str:
    if given is not None:
        return f"{given}: it has no record that was deleted from a client of this run"
    return (
        f"{folder.path}: the deleted records are not in its source any more, as it should be; "
        "if you have a copy to experiment with, give it with --deleted FILE.parquet"
    )


def _numbered(table: Table, start: int) -> Table:
    return replace(table, ids=tuple(f"{start + row:09d}" for row in range(len(table))))
