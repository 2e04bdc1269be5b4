"""Parquet files: read one, find those of a folder, and rewrite one without deleted rows."""

import os
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from fedsgt.data.sources.arrow import ERASED, check_columns
from fedsgt.errors import InputError
from fedsgt.files.durable import sync_folder
from fedsgt.files.optional import require
from fedsgt.words import one_line

SUFFIX = ".parquet"


def read_parquet(path: Path, columns: Sequence[str]) -> Any:
    """Return those columns of a parquet file as a pyarrow table."""
    arrow, parquet = require("pyarrow"), require("pyarrow.parquet")
    try:
        with parquet.ParquetFile(path) as file:
            check_columns(file.schema_arrow.names, columns, str(path))
            return file.read(columns=list(columns))
    except (OSError, arrow.ArrowException) as error:
        raise InputError(f"{path} cannot be read as a parquet file: {one_line(error)}") from error


def parts_of(folder: Path) -> dict[str, Path]:
    """Return the parts in a folder by name: `train` for train.parquet."""
    return {path.stem: path for path in sorted(folder.glob(f"*{SUFFIX}")) if path.is_file()}


def training_file(source: str) -> Path | None:
    """Return the local parquet file with the source's training records; None if there is none."""
    path = Path(source).expanduser()
    if path.is_dir():
        path = parts_of(path).get("train", path)
    # Resolved, because a rewrite would replace a link and leave the records where it leads.
    return path.resolve() if path.is_file() else None


def rewrite_parquet(path: Path, id_column: str, gone: Collection[str]) -> None:
    """Rewrite the file without the rows of these ids.

    A reader sees the old file or the new one and nothing between, also after a crash.
    """
    arrow, parquet = require("pyarrow"), require("pyarrow.parquet")
    with parquet.ParquetFile(path) as file:
        rows = file.read()
    left = rows.filter(arrow.array([str(value) not in gone for value in rows.column(id_column).to_pylist()]))
    if not left.num_rows:
        # An empty file is an error unless it says that its records were deleted.
        left = left.replace_schema_metadata({**(left.schema.metadata or {}), ERASED: b"1"})
    # The new file is written beside the old one and put in its place: a rename within a folder is atomic.
    unfinished = path.with_name(f".{path.name}.erasing")
    try:
        parquet.write_table(left, unfinished)
        with unfinished.open("rb+") as written:
            os.fsync(written.fileno())  # before the rename, or a power cut could leave an empty file
        # A file of records that only its owner could read must stay so.
        shutil.copymode(path, unfinished)
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise InputError(f"{path}: deleted records cannot be taken out of it ({error.strerror})") from None
    sync_folder(path.parent)  # the rename itself must be durable too
