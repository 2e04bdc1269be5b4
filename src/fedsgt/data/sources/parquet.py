"""Read parquet files."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedsgt.data.sources.arrow import ArrowTable
from fedsgt.data.sources.table import check_columns
from fedsgt.errors import InputError
from fedsgt.files.optional import require
from fedsgt.words import one_line


def open_parquet(
    path: Path, wanted: Sequence[str], optional: Sequence[str] = (), hints: Mapping[str, str] | None = None
) -> ArrowTable:
    """Return these columns of a parquet file; those that are `optional` if they are there."""
    with _readable(path) as file:
        present = file.schema_arrow.names
        check_columns(present, wanted, str(path), hints)
        names = [*wanted, *(name for name in optional if present.count(name) == 1 and name not in wanted)]
        return ArrowTable(file.read(columns=names), str(path), path.parent)


def parquet_columns(path: Path) -> list[str]:
    """Return the names of the columns of a parquet file."""
    with _readable(path) as file:
        return list(file.schema_arrow.names)


def parquet_heading(path: Path, columns: Sequence[str]) -> ArrowTable:
    """Return these columns of a parquet file without any rows."""
    with _readable(path) as file:
        heading = ArrowTable(file.schema_arrow.empty_table().select(list(columns)), str(path), path.parent)
    heading.may_be_empty = True
    return heading


@contextmanager
def _readable(path: Path) -> Iterator[Any]:
    """Open a parquet file; raise `InputError` if it turns out to be none."""
    arrow, parquet = require("pyarrow"), require("pyarrow.parquet")
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except PermissionError:
        raise InputError(f"{path} cannot be read (no right to)") from None
    except (OSError, arrow.ArrowException) as error:
        raise InputError(f"{path} cannot be read as a parquet file: {one_line(error)}") from error
