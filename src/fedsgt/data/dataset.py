"""The labelled records of one part of a source, and the columns that they are read from."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest

from fedsgt.data.records import Record, labels_of
from fedsgt.errors import InputError
from fedsgt.files.encoding import frame

# Stands for the row's number where a column of ids would be named; only for sources that never change.
ROW = "#row"


@dataclass(frozen=True)
class Columns:
    """Names of the columns to read; `client` is None unless the source names each record's owner."""

    inputs: tuple[str, ...]
    id: str = "id"
    label: str = "label"
    client: str | None = None
    images: bool = False
    """Whether the inputs are images; then a text in an input column is the path of one."""

    def __post_init__(self) -> None:
        if not self.inputs or len(set(self.names())) < len(self.names()):
            raise InputError(
                f"columns are {', '.join(map(repr, self.names()))}; allowed: at least one input column, "
                "and a column of its own for each of data.id_column, data.label_column and data.client_column"
            )

    def names(self) -> tuple[str, ...]:
        """Return the names of all columns that the source must have."""
        ids = () if self.id == ROW else (self.id,)
        owner = () if self.client is None else (self.client,)
        return (*ids, self.label, *self.inputs, *owner)

    def hints(self) -> dict[str, str]:
        """Return what to do if the source does not have one of these columns."""
        found = dict.fromkeys(self.inputs, "set data.input_columns") | {self.label: "set data.label_column"}
        if self.client is not None:
            found[self.client] = "set data.client_column, or data.partition to iid or dirichlet"
        found[self.id] = f"set data.id_column to a column of stable ids, or to {ROW} if rows never move"
        return found


@dataclass(frozen=True)
class Dataset:
    """Records with labels from 0 to `label_count - 1`; `load_dataset` returns them in the order of ids."""

    # Not printed, for the same reason as in `Client`.
    records: tuple[Record, ...] = field(repr=False)
    label_count: int
    label_names: tuple[str, ...] | None = None
    split_off: int = field(default=0, repr=False)
    """Number of records that are kept for testing because the source has no part for that."""
    rows: int | None = field(default=None, repr=False)
    """Number of rows of the part that the records are from, used or not; None if it is not known."""

    def __post_init__(self) -> None:
        if len({record.id for record in self.records}) < len(self.records):
            raise InputError("a data set has the same record id twice; allowed: each id once")

    def __len__(self) -> int:
        return len(self.records)

    @property
    def labels(self) -> tuple[int, ...]:
        """Labels of the records, in their order."""
        return tuple(labels_of(self.records))


@dataclass(frozen=True)
class Choice:
    """The rows of a part that are used. Ids decide alone, never the order of a file or its content."""

    limit: int | None = None
    """Largest number of rows; a larger one only adds records."""
    test_share: float | None = None
    """Share of the rows that is kept for testing; None if no row is."""
    test: bool = False
    """Whether to take that share, and not the rest."""

    def rows(self, ids: Sequence[str]) -> tuple[list[int], int]:
        """Return the rows to use, in the order of their ids, and the number of those kept for testing."""
        if self.test_share is None:
            return rows_to_use(ids, self.limit), 0
        kept = [is_kept_for_test(record_id, self.test_share) for record_id in ids]
        rows = [row for row in range(len(ids)) if kept[row] is self.test]
        return rows_to_use(ids, self.limit, rows), sum(kept)


def is_kept_for_test(record_id: str, share: float) -> bool:
    """Whether a record is kept for testing where a source has no part for that; its id decides alone."""
    code = hashlib.blake2b(frame(record_id), person=b"fedsgt.test.1", digest_size=8).digest()
    # Compared as whole numbers, so that every machine rounds the share in the same way.
    return int.from_bytes(code, "big") < int(share * 2**64)


def rows_to_use(ids: Sequence[str], limit: int | None, rows: Iterable[int] | None = None) -> list[int]:
    """Return the numbers of the rows to use, in the order of their ids: all of `rows`, or `limit` of them.

    The rows with the smallest hashes of ids are taken. So the choice depends on ids alone, neither on the
    order of the file nor on content, and a larger limit only adds records.
    """
    rows = range(len(ids)) if rows is None else rows
    if limit is not None:
        rows = nsmallest(limit, rows, key=lambda row: _rank(ids[row]))
    # Sorted by id, the canonical order: positions are dealt to clients, and a file may be in any order.
    return sorted(rows, key=ids.__getitem__)


def _rank(record_id: str) -> bytes:
    """Hash an id to its place in the order in which a limit takes records."""
    return hashlib.blake2b(frame(record_id), person=b"fedsgt.limit.1", digest_size=16).digest()
