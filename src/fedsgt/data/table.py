"""Labelled records with their content, as a data source gives them."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import nsmallest
from typing import Any, TypeAlias

from fedsgt.data.records import Record, content_digest
from fedsgt.errors import InputError
from fedsgt.files.encoding import frame

# In place of a column of ids: the row's number, for sources that never change.
ROW = "#row"
# One entry per input column: the bytes of an image file, or a text.
Content: TypeAlias = tuple[bytes | str, ...]


@dataclass(frozen=True)
class Columns:
    """Names of the columns to read; `client` only where records come with their owner."""

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
        """All that the source must have."""
        ids = () if self.id == ROW else (self.id,)
        owner = () if self.client is None else (self.client,)
        return (*ids, self.label, *self.inputs, *owner)


@dataclass(frozen=True)
class Table:
    """Records of one part of a data source, in the order of their ids if `load_table` made it."""

    # What is printed shows no record, for the reason that it does not in `Client`.
    ids: tuple[str, ...] = field(repr=False)
    labels: tuple[int, ...] = field(repr=False)
    contents: tuple[Content, ...] = field(repr=False)
    owners: tuple[str, ...] | None = field(repr=False)
    label_count: int
    label_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        owners = self.ids if self.owners is None else self.owners
        sizes = (len(self.ids), len(self.labels), len(self.contents), len(owners))
        if len(set(sizes)) > 1:
            raise InputError(
                f"a table has {sizes[0]} ids, {sizes[1]} labels, {sizes[2]} contents and {sizes[3]} owners; "
                "allowed: as many of each"
            )
        if len(self._places) < len(self.ids):
            raise InputError("a table has the same record id twice; allowed: each id once")

    def __len__(self) -> int:
        return len(self.ids)

    def records(self) -> tuple[Record, ...]:
        """The records as the rest of the package sees them, with a digest in place of the content."""
        return self._records

    def take(self, indices: Iterable[int]) -> "Table":
        """The table of those records, in that order."""
        rows = list(indices)
        return replace(
            self,
            ids=tuple(self.ids[row] for row in rows),
            labels=tuple(self.labels[row] for row in rows),
            contents=tuple(self.contents[row] for row in rows),
            owners=None if self.owners is None else tuple(self.owners[row] for row in rows),
        )

    def index_of(self, ids: Iterable[str]) -> tuple[int, ...]:
        """Where the records of those ids are."""
        wanted = tuple(ids)
        for record_id in wanted:
            if record_id not in self._places:
                raise InputError(
                    f"no record has the id {record_id!r}; allowed: ids of the table's {len(self)} records"
                )
        return tuple(self._places[record_id] for record_id in wanted)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {record_id: row for row, record_id in enumerate(self.ids)}

    @cached_property
    def _records(self) -> tuple[Record, ...]:
        rows = zip(self.ids, self.contents, self.labels, strict=True)
        return tuple(Record(record_id, content_digest(*content), label) for record_id, content, label in rows)


def rows_to_use(ids: Sequence[str], limit: int | None) -> list[int]:
    """Rows in the order of their ids: all, or as many as `limit` says.

    Those with the smallest hashes are taken, so the choice depends on ids alone: neither on the order of the
    file nor on content, and a larger limit only adds records.
    """
    rows: Iterable[int] = range(len(ids))
    if limit is not None:
        rows = nsmallest(limit, rows, key=lambda row: _rank(ids[row]))
    return sorted(rows, key=ids.__getitem__)


def checked_labels(values: Sequence[Any], ids: Sequence[str], count: int, where: str) -> tuple[int, ...]:
    """The labels, if each is a whole number from 0 to count - 1."""
    for value, record_id in zip(values, ids, strict=True):
        if type(value) is not int or not 0 <= value < count:
            raise InputError(
                f"{where}: record {record_id!r} has the label {value!r}; "
                f"allowed: whole numbers from 0 to {count - 1}"
            )
    return tuple(values)


def _rank(record_id: str) -> bytes:
    return hashlib.blake2b(frame(record_id), person=b"fedsgt.limit.1", digest_size=16).digest()
