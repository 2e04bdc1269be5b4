"""Rows of Arrow tables, the form in which parquet files, saved data sets and those of the hub are read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedsgt.data.sources.arrow_columns import filtered
from fedsgt.data.sources.table import Table
from fedsgt.errors import InputError
from fedsgt.files.optional import require

# Written into the schema of a file whose last row was deleted: only such a file may be empty.
ERASED = b"fedsgt.erased"


class ArrowTable(Table):
    """Rows of a pyarrow table; `folder` is where paths of images start."""

    def __init__(
        self, rows: Any, where: str, folder: Path | None = None, order: Sequence[int] | None = None
    ) -> None:
        self.rows, self.where, self.folder = rows, where, folder
        # Row of the pyarrow table that each row of this one is.
        self.order = range(rows.num_rows) if order is None else order
        self.may_be_empty = ERASED in (rows.schema.metadata or {})

    def __len__(self) -> int:
        return len(self.order)

    def names(self, column: str) -> list[str | int | None]:
        types = require("pyarrow").types
        kind = plain_type(self.rows.column(column).type)
        if not (types.is_integer(kind) or is_text(kind)):
            raise InputError(
                f"{self.where}: column {column!r} is of type {kind}; allowed: texts or whole numbers"
            )
        return self._values(self.rows.column(column), column)

    def values(self, column: str) -> list[Any]:
        return self._values(self.rows.column(column), column)

    def has(self, column: str) -> bool:
        return column in self.rows.column_names

    def contents(self, column: str) -> list[bytes | str | None]:
        """Return texts, bytes, or the bytes inside the datasets library's image structures."""
        values = self.rows.column(column)
        types = require("pyarrow").types
        if types.is_struct(values.type) and values.type.get_field_index("bytes") >= 0:
            values = require("pyarrow.compute").struct_field(values, "bytes")
        kind = plain_type(values.type)
        if not (is_text(kind) or _is_bytes(kind)):
            raise InputError(
                f"{self.where}: column {column!r} is of type {values.type}; allowed: texts or the bytes of "
                "images"
            )
        return self._values(values, column)

    def declared_names(self, column: str) -> tuple[str, ...] | None:
        """Return the names of a ClassLabel, which the datasets library writes into the Arrow schema."""
        try:
            feature = json.loads(self.rows.schema.metadata[b"huggingface"])["info"]["features"][column]
            names = feature["names"] if feature["_type"] == "ClassLabel" else None
        except (KeyError, TypeError, ValueError, RecursionError):
            return None
        return tuple(map(str, names)) if isinstance(names, list) else None

    def select(self, rows: Sequence[int]) -> ArrowTable:
        chosen = [self.order[row] for row in rows]
        if len(chosen) == self.rows.num_rows:
            return ArrowTable(self.rows, self.where, self.folder, chosen)
        place = {row: index for index, row in enumerate(sorted(chosen))}
        # A filter keeps the chunks as they are; Arrow's `take` may join them, which fails beyond 2 GiB.
        mask = require("pyarrow").array([row in place for row in range(self.rows.num_rows)])
        left = filtered(self.rows, mask)
        return ArrowTable(left, self.where, self.folder, [place[row] for row in chosen])

    def _values(self, column: Any, name: str) -> list[Any]:
        try:
            values = column.to_pylist()
        except UnicodeDecodeError as error:
            raise InputError(f"{self.where}: column {name!r} holds text that is not UTF-8") from error
        return [values[row] for row in self.order]


def plain_type(kind: Any) -> Any:
    """Return the type of the values themselves, also where a dictionary stores equal values once."""
    return kind.value_type if require("pyarrow").types.is_dictionary(kind) else kind


def is_text(kind: Any) -> bool:
    """Whether a type of Arrow is one of texts."""
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
