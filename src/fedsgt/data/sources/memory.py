"""Records in memory: pandas frames, Arrow tables, data sets and lists, with images in any usual form."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal

from fedsgt.data.dataset import Columns
from fedsgt.data.sources.table import check_columns
from fedsgt.errors import InputError
from fedsgt.files.optional import require
from fedsgt.words import one_line

Task = Literal["image", "text"]
ALLOWED = "a pandas DataFrame, a pyarrow Table, a datasets.Dataset or a list of dicts"
HUGGINGFACE = b"huggingface"


@dataclass(frozen=True)
class GivenRecords:
    """Tables of records that came from memory, with the columns that a run reads of them."""

    train: Any = field(repr=False)
    test: Any = field(default=None, repr=False)
    """Test records; None if they are to be split off."""


def given_records(data: Any, columns: Columns, task: Task) -> GivenRecords:
    """Return the records as tables; a mapping may give the parts `train` and `test` (or `validation`)."""
    if isinstance(data, Mapping):
        known = {"train", "test", "validation"}
        if "train" not in data or not set(data) <= known:
            named = ", ".join(map(repr, data)) or "nothing"
            raise InputError(f"data has the parts {named}; allowed: train, and test or validation")
        test = data.get("test", data.get("validation"))
        parts = {"train": data["train"]} | ({} if test is None else {"test": test})
        return GivenRecords(**{name: given_table(part, columns, task) for name, part in parts.items()})
    return GivenRecords(given_table(data, columns, task))


def given_table(data: Any, columns: Columns, task: Task) -> Any:
    """Return a pyarrow table of these columns, with images as the bytes of image files."""
    arrow, found = require("pyarrow"), _columns_of(data, columns.names())
    arrays = {}
    for name, values in found.items():
        plain = values
        if name in columns.inputs:
            plain = [input_of(value, task, f"data, row {row}") for row, value in enumerate(values)]
        try:
            arrays[name] = arrow.array(plain)
        except (arrow.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"data: column {name!r} holds values of several kinds ({one_line(error)})"
            ) from None
    return arrow.table(arrays).replace_schema_metadata(_metadata(data))


def is_table(value: object) -> bool:
    """Whether the value is a table with named columns: a frame, a table or a data set."""
    return _kind(value) is not None


def rows_of(data: Any, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return these columns of a table, row by row."""
    return list(zip(*_columns_of(data, columns).values(), strict=True))


def column_names(data: Any) -> list[str]:
    """Return the names of a table's columns."""
    if _kind(data) == "frame":
        columns = [str(name) for name in data.columns]
        # An index of the same name as a column is most often that column.
        index = [str(name) for name in data.index.names if name is not None]
        return [*(name for name in index if name not in columns), *columns]
    return list(map(str, data.column_names))


def input_of(value: Any, task: Task, where: str) -> bytes | str:
    """Return one input as a record holds it: a text, or the bytes of an image file."""
    if task == "text":
        if isinstance(value, str) and _is_unicode(value):
            return value
        half = "a text with half of a character (a surrogate)"
        raise InputError(f"{where}: {half if isinstance(value, str) else _told(value)} is not a text")
    # The datasets library stores an image as {"bytes": ..., "path": ...}.
    if isinstance(value, Mapping) and (value.get("bytes") is not None or value.get("path")):
        value = value["bytes"] if value.get("bytes") is not None else value["path"]
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str | PathLike):
        return _read(Path(fspath(value)), where)
    if hasattr(value, "__array_interface__") and not hasattr(value, "save"):
        value = _picture(value, where)
    if hasattr(value, "save"):  # a picture of Pillow
        return _png(value)
    raise InputError(
        f"{where}: {_told(value)} is no image; allowed: the path or the bytes of an image file, a picture of "
        "Pillow, or a numpy array of uint8"
    )


def _columns_of(data: Any, names: Sequence[str]) -> dict[str, list[Any]]:
    kind = _kind(data)
    if kind is None:
        return _of_rows(data, names)
    check_columns(column_names(data), names, "data")
    if kind == "frame":
        return {name: _frame_column(data, name) for name in names}
    rows = data if kind == "table" else data.select_columns(list(names)).with_format("arrow")[:]
    return {name: rows.column(name).to_pylist() for name in names}


def _of_rows(data: Any, names: Sequence[str]) -> dict[str, list[Any]]:
    if isinstance(data, str | bytes) or not isinstance(data, Sequence):
        raise InputError(f"data: {_told(data)} is not a table; allowed: {ALLOWED}")
    for row, values in enumerate(data):
        if not isinstance(values, Mapping):
            raise InputError(f"data, row {row}: {_told(values)} is not a dict; allowed: {ALLOWED}")
        check_columns(list(map(str, values)), names, f"data, row {row},")
    rows = [{str(name): value for name, value in values.items()} for values in data]
    return {name: [values[name] for values in rows] for name in names}


def _frame_column(data: Any, name: str) -> list[Any]:
    """Return a column by the text of its name, or else a level of the index."""
    for place, column in enumerate(data.columns):
        if str(column) == name:
            found: list[Any] = data.iloc[:, place].tolist()
            return found
    level = [str(one) for one in data.index.names].index(name)
    values: list[Any] = data.index.get_level_values(level).tolist()
    return values


def _kind(value: object) -> Literal["frame", "table", "dataset"] | None:
    """Tell what sort of table a value is, without importing the library that it comes from."""
    names = {f"{one.__module__.partition('.')[0]}.{one.__name__}" for one in type(value).__mro__}
    if "pandas.DataFrame" in names:
        return "frame"
    if "pyarrow.Table" in names:
        return "table"
    return "dataset" if "datasets.Dataset" in names else None


def _metadata(data: Any) -> Mapping[bytes, bytes] | None:
    """Return what a data set declares of its labels."""
    kind = _kind(data)
    if kind not in ("table", "dataset"):
        return None
    schema = data.schema if kind == "table" else data.data.schema
    known = schema.metadata or {}
    return {HUGGINGFACE: known[HUGGINGFACE]} if HUGGINGFACE in known else None


def _picture(array: Any, where: str) -> Any:
    values = require("numpy").asarray(array)
    if (
        values.dtype != "uint8"
        or values.ndim not in (2, 3)
        or (values.ndim == 3 and values.shape[2] not in (1, 3, 4))
    ):
        raise InputError(
            f"{where}: an array of {values.dtype} of shape {'x'.join(map(str, values.shape))} is no image; "
            "allowed: uint8, height x width or height x width x 3"
        )
    return require("PIL.Image").fromarray(
        values[:, :, 0] if values.ndim == 3 and values.shape[2] == 1 else values
    )


def _png(picture: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, format="PNG")  # without loss
    return file.getvalue()


def _read(path: Path, where: str) -> bytes:
    try:
        return path.expanduser().read_bytes()
    except OSError as error:
        raise InputError(f"{where}: the image {path} cannot be read ({error.strerror})") from None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _told(value: object) -> str:
    return "nothing" if value is None else f"a value of type {type(value).__name__}"
