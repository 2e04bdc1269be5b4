"""Parquet files: one, or a folder with one per part."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedsgt.data.arrow import check_columns
from fedsgt.data.extras import one_line, require
from fedsgt.errors import InputError

SUFFIX = ".parquet"


def read_parquet(path: Path, columns: Sequence[str]) -> Any:
    """Those columns of a parquet file, as a pyarrow table."""
    arrow, parquet = require("pyarrow"), require("pyarrow.parquet")
    try:
        with parquet.ParquetFile(path) as file:
            check_columns(file.schema_arrow.names, columns, str(path))
            return file.read(columns=list(columns))
    except (OSError, arrow.ArrowException) as error:
        raise InputError(f"{path} cannot be read as a parquet file: {one_line(error)}") from error


def parts_of(folder: Path) -> dict[str, Path]:
    """The parts in a folder by name: `train` for train.parquet."""
    return {path.stem: path for path in sorted(folder.glob(f"*{SUFFIX}")) if path.is_file()}
