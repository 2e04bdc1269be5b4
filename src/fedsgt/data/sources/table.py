"""From the rows of a source, whatever its format, to checked records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from fedsgt.data.dataset import ROW, Choice, Columns, Dataset
from fedsgt.data.labels import Labels
from fedsgt.data.records import Record
from fedsgt.data.sources.image_paths import read_image
from fedsgt.errors import InputError


class Table(ABC):
    """Rows of one part of a source; each format has a class of its own."""

    where: str
    """Place of the rows; begins every error."""
    folder: Path | None = None
    """Folder at which paths in the rows start; None if the format has no such paths."""
    may_be_empty = True
    """Whether there may be no rows: the deletion of the last one leaves such a file."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def names(self, column: str) -> Sequence[str | int | None]:
        """Return a column of ids or owners."""

    @abstractmethod
    def values(self, column: str) -> Sequence[Any]:
        """Return a column as it is, such as that of the labels."""

    @abstractmethod
    def contents(self, column: str) -> Sequence[bytes | str | None]:
        """Return an input column: texts, or the bytes of images."""

    @abstractmethod
    def select(self, rows: Sequence[int]) -> Self:
        """Return the table of these rows, in this order."""

    def has(self, column: str) -> bool:
        """Whether a column that was optional is there."""
        return False

    def declared_names(self, column: str) -> tuple[str, ...] | None:
        """Return the names that a column of numbers stands for, if the format declares them."""
        return None

    def problem_with(self, columns: Columns) -> str | None:
        """Return why the format cannot have these columns; None if it can."""
        return None

    def number(self, row: int) -> int:
        """Return the number by which people find a row: its line in a text file, or counted from 1."""
        return row + 1

    def places(self, *rows: int) -> str:
        """Return how messages name rows: by their number in the file."""
        return f"row{'s' * (len(rows) > 1)} {' and '.join(map(str, rows))} (counted from 0)"


def dataset_from_table(
    table: Table,
    columns: Columns,
    *,
    labels: int | None = None,
    label_names: Sequence[str] | None = None,
    choice: Choice | None = None,
) -> Dataset:
    """Return the chosen rows of a table as records, in the order of their ids."""
    problem = table.problem_with(columns)
    if problem is not None:
        raise InputError(f"{table.where}: {problem}")
    if not len(table) and not table.may_be_empty:
        raise InputError(f"{table.where}: there are no rows; allowed: at least one record")
    known = Labels.declared(labels, label_names, table.declared_names(columns.label), table.where)
    ids = _ids(table, columns.id)
    owners: Sequence[str | None] = [None] * len(ids)
    if columns.client is not None:
        # Checked for all rows before the choice, so that an error names the row as it is in the file.
        owners = names_in(table, columns.client)
    chosen, split_off = (choice or Choice()).rows(ids)
    # Rows are chosen before contents are read, so that unused ones cost nothing.
    used = table.select(chosen)
    ids, owners = [ids[row] for row in chosen], [owners[row] for row in chosen]
    found = known.read(used.values(columns.label), ids, table.where)
    inputs = [_contents(used, name, ids, columns.images) for name in columns.inputs]
    fields = zip(ids, zip(*inputs, strict=True), found, owners, strict=True)
    return Dataset(
        tuple(Record(*values) for values in fields), known.count, known.names, split_off, len(table)
    )


def check_columns(
    present: Sequence[str], wanted: Sequence[str], where: str, hints: Mapping[str, str] | None = None
) -> None:
    """Check that every wanted column is there exactly once; `hints` say what to do about a missing one."""
    for name in wanted:
        if present.count(name) != 1:
            problem = "has no column" if name not in present else "has more than one column"
            hint = f"; {hints[name]}" if hints and name in hints else ""
            shown = ", ".join(map(repr, present)) or "none"
            raise InputError(f"{where} {problem} {name!r}; its columns: {shown}{hint}")


def names_in(table: Table, column: str) -> list[str]:
    """Return a column of ids or owners as texts; raise if one is missing or empty."""
    values = table.names(column)
    # A row without an id could never be deleted, and one without an owner would belong to nobody.
    for row, value in enumerate(values):
        if value is None or value == "":
            problem = "is missing" if value is None else "is empty"
            raise InputError(
                f"{table.where}: column {column!r} {problem} in {table.places(row)}; "
                "allowed: a text or whole number in every row"
            )
    return list(map(str, values))


def _ids(table: Table, column: str) -> list[str]:
    """Return the id of each row; raise `InputError` if two rows have the same."""
    if column == ROW:
        # Nine digits, so that ids sort as row numbers do.
        return [f"{row:09d}" for row in range(len(table))]
    ids = names_in(table, column)
    if len(set(ids)) < len(ids):
        first: dict[str, int] = {}
        for row, record_id in enumerate(ids):
            if first.setdefault(record_id, row) != row:
                raise InputError(
                    f"{table.where}: column {column!r} has the id {record_id!r} in "
                    f"{table.places(first[record_id], row)}; allowed: each id once"
                )
    return ids


def _contents(table: Table, column: str, ids: Sequence[str], images: bool) -> list[bytes | str]:
    """Return one input column; where images are wanted, a text is the path of one."""
    found: list[bytes | str] = []
    for record_id, value in zip(ids, table.contents(column), strict=True):
        if value is None:
            raise InputError(
                f"{table.where}: record {record_id!r} has nothing in column {column!r}; "
                "allowed: a text, or the bytes of an image (its path alone is not enough)"
            )
        if images and isinstance(value, str) and table.folder is not None:
            found.append(read_image(value, table.folder, f"{table.where}: record {record_id!r}"))
        else:
            found.append(value)
    return found
