"""Data sets of the Hugging Face hub, and folders that its datasets library saved (`save_to_disk`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsgt.data.sources.arrow import ArrowTable
from fedsgt.data.sources.table import check_columns
from fedsgt.errors import InputError
from fedsgt.files.optional import require
from fedsgt.words import one_line


def open_hub(source: str) -> Mapping[str, Any]:
    """Return the splits of a hub data set: `owner/name`, perhaps with `:config` behind it."""
    name, _, config = source.partition(":")
    # Required here, since most runs read local files and need no such library.
    datasets = require("datasets")
    try:
        splits: Mapping[str, Any] = datasets.load_dataset(name, config or None)
    except Exception as error:  # dataset builders and the hub's client raise errors of any kind
        raise InputError(
            f"data.source {source!r} is neither a file or folder here nor a data set that the hub gives: "
            f"{one_line(error)}"
        ) from error
    return splits


def read_saved(
    folder: Path, wanted: Sequence[str], optional: Sequence[str] = (), hints: Mapping[str, str] | None = None
) -> ArrowTable:
    """Return these columns of a data set in a folder; those that are `optional` if they are there."""
    datasets = require("datasets")
    try:
        split = datasets.load_from_disk(str(folder))
    except Exception as error:  # the library raises errors of any kind for files that are damaged
        raise InputError(f"{folder} cannot be read as a saved data set: {one_line(error)}") from error
    return read_split(split, wanted, str(folder), optional, hints)


def saved_columns(folder: Path) -> list[str]:
    """Return the names of the columns of a data set in a folder."""
    try:
        return list(json.loads((folder / "dataset_info.json").read_bytes())["features"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise InputError(f"{folder} cannot be read as a saved data set: {one_line(error)}") from error


def read_split(
    split: Any,
    wanted: Sequence[str],
    where: str,
    optional: Sequence[str] = (),
    hints: Mapping[str, str] | None = None,
) -> ArrowTable:
    """Return columns of one split; images stay encoded, as they are stored."""
    present = list(split.column_names)
    check_columns(present, wanted, where, hints)
    names = [*wanted, *(name for name in optional if name in present and name not in wanted)]
    return ArrowTable(split.select_columns(names).with_format("arrow")[:], where)
