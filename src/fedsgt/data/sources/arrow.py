"""Checked records from Arrow tables, the form in which parquet files and hub data sets are both read."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fedsgt.data.dataset import ROW, Columns, Dataset, checked_labels, rows_to_use
from fedsgt.data.records import Record
from fedsgt.data.sources.arrow_columns import filtered
from fedsgt.errors import InputError
from fedsgt.files.optional import require

# Written into the schema of a file whose last row was deleted: only such a file may be empty.
ERASED = b"fedsgt.erased"


def dataset_from_arrow(
    rows: Any, columns: Columns, *, where: str, labels: int | None, limit: int | None
) -> Dataset:
    """Return the rows of a pyarrow table as records in the order of their ids; `where` begins every error."""
    if not rows.num_rows and ERASED not in (rows.schema.metadata or {}):
        raise InputError(f"{where}: there are no rows; allowed: at least one record")
    count, names = _label_count(rows.schema.metadata, columns.label, labels, where)
    ids = _ids(rows, columns.id, where)
    owners: Sequence[str | None] = [None] * len(ids)
    if columns.client is not None:
        # Checked for all rows before the choice, so that an error names the row as it is in the file.
        owners = _names(rows, columns.client, where)
    chosen = rows_to_use(ids, limit)
    ids, owners = [ids[row] for row in chosen], [owners[row] for row in chosen]
    # Rows are chosen before contents are copied out of Arrow's memory, so that unused ones cost nothing.
    rows, order = _filtered(rows, chosen)
    values = _python_values(rows.column(columns.label), columns.label, where)
    inputs = [_contents(rows, name, order, ids, where) for name in columns.inputs]
    checked = checked_labels([values[row] for row in order], ids, count, where)
    fields = zip(ids, zip(*inputs, strict=True), checked, owners, strict=True)
    return Dataset(tuple(Record(*values) for values in fields), count, names)


def check_columns(present: Sequence[str], wanted: Sequence[str], where: str) -> None:
    """Check that every wanted column is there exactly once."""
    for name in wanted:
        if present.count(name) != 1:
            problem = "has no column" if name not in present else "has more than one column"
            raise InputError(f"{where} {problem} {name!r}; its columns: {', '.join(map(repr, present))}")


def _label_count(
    metadata: Mapping[bytes, bytes] | None, column: str, labels: int | None, where: str
) -> tuple[int, tuple[str, ...] | None]:
    """Return the number of labels, and their names if the source declares as many.

    Labels are never counted in the records: deleted ones must leave no trace, not even in a head's shape.
    """
    names = _declared_names(metadata or {}, column)
    count = labels if labels is not None else len(names or ())
    if count == 0:
        raise InputError(
            f"{where}: column {column!r} does not declare how many labels there are; set data.labels"
        )
    if count == 1:
        raise InputError(f"{where}: column {column!r} has 1 label; allowed: at least 2")
    # Names of another number of labels than the one in use would name the wrong ones.
    return count, names if names is not None and len(names) == count else None


def _declared_names(metadata: Mapping[bytes, bytes], column: str) -> tuple[str, ...] | None:
    """Return the names of a ClassLabel, which the datasets library writes into the Arrow schema."""
    try:
        feature = json.loads(metadata[b"huggingface"])["info"]["features"][column]
        names = feature["names"] if feature["_type"] == "ClassLabel" else None
    except (KeyError, TypeError, ValueError):
        return None
    return tuple(map(str, names)) if isinstance(names, list) else None


def _ids(rows: Any, column: str, where: str) -> list[str]:
    """Return the id of each row; raise `InputError` if two rows have the same."""
    if column == ROW:
        # Nine digits, so that ids sort as row numbers do.
        return [f"{row:09d}" for row in range(rows.num_rows)]
    ids = _names(rows, column, where)
    _check_unique(ids, column, where)
    return ids


def _names(rows: Any, name: str, where: str) -> list[str]:
    """Return a column of ids or owners as texts; whole numbers are allowed too."""
    types = require("pyarrow").types
    kind = _plain_type(rows.column(name).type)
    if not (types.is_integer(kind) or _is_text(kind)):
        raise InputError(f"{where}: column {name!r} is of type {kind}; allowed: texts or whole numbers")
    values = _python_values(rows.column(name), name, where)
    # A row without an id could never be deleted, and one without an owner would belong to nobody.
    for row, value in enumerate(values):
        if value is None or value == "":
            problem = "is missing" if value is None else "is empty"
            raise InputError(
                f"{where}: column {name!r} {problem} in row {row} (counted from 0); "
                "allowed: a text or whole number in every row"
            )
    return list(map(str, values))


def _check_unique(ids: Sequence[str], name: str, where: str) -> None:
    if len(set(ids)) == len(ids):
        return
    first: dict[str, int] = {}
    for row, record_id in enumerate(ids):
        if first.setdefault(record_id, row) != row:
            raise InputError(
                f"{where}: column {name!r} has the id {record_id!r} in rows {first[record_id]} and {row} "
                "(counted from 0); allowed: each id once"
            )


def _filtered(rows: Any, chosen: Sequence[int]) -> tuple[Any, Sequence[int]]:
    """Return the table of the chosen rows, and the place that each of them has in it."""
    if len(chosen) == rows.num_rows:
        return rows, chosen
    in_file_order = sorted(chosen)
    place = {row: index for index, row in enumerate(in_file_order)}
    # A filter keeps the chunks as they are; Arrow's `take` may join them, which fails beyond 2 GiB.
    mask = require("pyarrow").array([row in place for row in range(rows.num_rows)])
    return filtered(rows, mask), [place[row] for row in chosen]


def _contents(
    rows: Any, name: str, order: Sequence[int], ids: Sequence[str], where: str
) -> list[bytes | str]:
    """Return one input column: texts, bytes, or the bytes inside the datasets library's image structures."""
    column = rows.column(name)
    types = require("pyarrow").types
    if types.is_struct(column.type) and column.type.get_field_index("bytes") >= 0:
        column = require("pyarrow.compute").struct_field(column, "bytes")
    kind = _plain_type(column.type)
    if not (_is_text(kind) or _is_bytes(kind)):
        raise InputError(
            f"{where}: column {name!r} is of type {column.type}; allowed: texts or the bytes of images"
        )
    in_file_order = _python_values(column, name, where)
    values = [in_file_order[row] for row in order]
    for record_id, value in zip(ids, values, strict=True):
        if value is None:
            raise InputError(
                f"{where}: record {record_id!r} has nothing in column {name!r}; "
                "allowed: a text, or the bytes of an image (its path alone is not enough)"
            )
    return values


def _python_values(column: Any, name: str, where: str) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: column {name!r} holds text that is not UTF-8") from error
    return values


def _plain_type(kind: Any) -> Any:
    """Return the type of the values themselves, also where a dictionary stores equal values once."""
    return kind.value_type if require("pyarrow").types.is_dictionary(kind) else kind


def _is_text(kind: Any) -> bool:
    types = require("pyarrow").types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_bytes(kind: Any) -> bool:
    types = require("pyarrow").types
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    )
