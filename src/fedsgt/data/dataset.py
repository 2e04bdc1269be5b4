"""The labelled records of one part of a source, and the columns that they are read from."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any

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


@dataclass(frozen=True)
class Dataset:
    """Records with labels from 0 to `label_count - 1`; `load_dataset` returns them in the order of ids."""

    # Not printed, for the same reason as in `Client`.
    records: tuple[Record, ...] = field(repr=False)
    label_count: int
    label_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if len({record.id for record in self.records}) < len(self.records):
            raise InputError("a data set has the same record id twice; allowed: each id once")

    def __len__(self) -> int:
        return len(self.records)

    @property
    def labels(self) -> tuple[int, ...]:
        """Labels of the records, in their order."""
        return tuple(labels_of(self.records))


def rows_to_use(ids: Sequence[str], limit: int | None) -> list[int]:
    """Return the numbers of the rows to use, in the order of their ids: all, or `limit` of them.

    The rows with the smallest hashes of ids are taken. So the choice depends on ids alone, neither on the
    order of the file nor on content, and a larger limit only adds records.
    """
    rows: Iterable[int] = range(len(ids))
    if limit is not None:
        rows = nsmallest(limit, rows, key=lambda row: _rank(ids[row]))
    # Sorted by id, the canonical order: positions are dealt to clients, and a file may be in any order.
    return sorted(rows, key=ids.__getitem__)


def checked_labels(values: Sequence[Any], ids: Sequence[str], count: int, where: str) -> Sequence[int]:
    """Return the labels; raise `InputError` unless each is a whole number from 0 to `count - 1`."""
    for value, record_id in zip(values, ids, strict=True):
        # bool is a subclass of int, and True would pass for label 1.
        if type(value) is not int or not 0 <= value < count:
            raise InputError(
                f"{where}: record {record_id!r} has the label {value!r}; "
                f"allowed: whole numbers from 0 to {count - 1}"
            )
    return values


def _rank(record_id: str) -> bytes:
    """Hash an id to its place in the order in which a limit takes records."""
    return hashlib.blake2b(frame(record_id), person=b"fedsgt.limit.1", digest_size=16).digest()
