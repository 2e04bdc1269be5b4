"""Inputs to predict, as people have them in Python, made into records."""

from __future__ import annotations

import io
from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from fedsgt.config import Config
from fedsgt.data import Record
from fedsgt.data.sources.memory import Task, column_names, input_of, is_table, rows_of
from fedsgt.errors import InputError
from fedsgt.runs.records import input_columns
from fedsgt.serving.inputs import read_records
from fedsgt.words import counted

# Files that hold records; any other path is that of an image.
TABLES = (".csv", ".jsonl", ".parquet", ".txt")


def records_of(inputs: Any, config: Config) -> list[Record]:
    """Return the records to predict: one input, several, a table, or the path of a file of records.

    A record without an id is called by its place.
    """
    task, columns = config.model.task, input_columns(config)
    if is_table(inputs):
        return _of_table(inputs, task, columns, config.data.id_column)
    if isinstance(inputs, PathLike):
        return _of_path(Path(fspath(inputs)), config)
    several = _several(inputs, task, len(columns))
    if not several:
        raise InputError("there is nothing to predict; give at least one input")
    if isinstance(several[0], dict):
        return _of_rows(several, task, columns, config.data.id_column)
    return [_record(place, one, task, columns) for place, one in enumerate(several)]


def _several(inputs: Any, task: Task, width: int) -> Sequence[Any]:
    """Return the inputs one by one; a single one is a list of one."""
    if isinstance(inputs, str | bytes | dict) or hasattr(inputs, "save"):
        return [inputs]
    if hasattr(inputs, "__array_interface__"):
        return _pictures(inputs) if task == "image" else inputs.reshape(-1).tolist()
    # A tuple is one record of several inputs; with one input a record, it is a sequence as any other.
    if isinstance(inputs, tuple) and width > 1 and not any(isinstance(one, tuple | list) for one in inputs):
        return [inputs]
    if isinstance(inputs, Record):
        return [inputs]
    try:
        return list(inputs)
    except TypeError:
        raise InputError(
            f"a value of type {type(inputs).__name__} cannot be predicted; give a text, an image, a list of "
            "these, or a table"
        ) from None


def _pictures(array: Any) -> list[Any]:
    """Return one picture, or those of an array that holds several along its first axis."""
    shape = array.shape
    single = len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3, 4))
    return [array] if single else list(array)


def _record(place: int, given: Any, task: Task, columns: Sequence[str]) -> Record:
    if isinstance(given, Record):
        return given
    parts = given if isinstance(given, tuple | list) else (given,)
    if len(parts) != len(columns):
        raise InputError(
            f"input {place} has {counted(len(parts), 'part')}, but a record of this run has {len(columns)}: "
            f"{', '.join(columns)}"
        )
    return Record(str(place), tuple(input_of(part, task, f"input {place}") for part in parts))


def _of_table(table: Any, task: Task, columns: Sequence[str], id_column: str) -> list[Record]:
    known = column_names(table)
    named = [id_column] if id_column in known else []
    rows = rows_of(table, [*columns, *named])
    return [_row(place, row[: len(columns)], row[len(columns) :], task) for place, row in enumerate(rows)]


def _of_rows(rows: Sequence[Any], task: Task, columns: Sequence[str], id_column: str) -> list[Record]:
    whole = rows_of(rows, columns)
    names = [(row[id_column],) if row.get(id_column) is not None else () for row in rows]
    return [_row(place, row, name, task) for place, (row, name) in enumerate(zip(whole, names, strict=True))]


def _row(place: int, values: Sequence[Any], name: Sequence[Any], task: Task) -> Record:
    contents = tuple(input_of(value, task, f"row {place}") for value in values)
    return Record(str(name[0]) if name else str(place), contents)


def _of_path(path: Path, config: Config) -> list[Record]:
    if path.suffix.lower() not in TABLES and config.model.task == "text":
        raise InputError(f"{path}: unknown suffix; allowed: {', '.join(TABLES)}")
    return read_records([str(path)], config, io.BytesIO())
