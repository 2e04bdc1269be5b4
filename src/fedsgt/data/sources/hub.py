"""Data sets of the Hugging Face hub, through the datasets library and its cache."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fedsgt.data.sources.arrow import check_columns
from fedsgt.errors import InputError
from fedsgt.files.optional import require
from fedsgt.words import one_line

_HUB_ID = re.compile(r"(?P<name>[\w.-]+(/[\w.-]+)?)(:(?P<config>[\w.-]+))?")


def open_hub(source: str) -> Mapping[str, Any]:
    """Return the splits of a hub data set: `name` or `owner/name`, perhaps with `:config` behind it."""
    match = _HUB_ID.fullmatch(source)
    if match is None:
        raise InputError(
            f"data.source {source!r} is no file or folder here, and no hub data set can have that name; "
            "allowed: digits, a parquet file, a folder of them, or owner/name:config"
        )
    # Required here, since most runs read local files and need no such library.
    datasets = require("datasets")
    try:
        splits: Mapping[str, Any] = datasets.load_dataset(match["name"], match["config"])
    except Exception as error:  # dataset builders and the hub's client raise errors of any kind
        raise InputError(
            f"data.source {source!r} is neither a file or folder here nor a data set that the hub gives: "
            f"{one_line(error)}"
        ) from error
    return splits


def read_split(split: Any, columns: Sequence[str], where: str) -> Any:
    """Return those columns of one split as a pyarrow table; images stay encoded, as they are stored."""
    check_columns(split.column_names, columns, where)
    return split.select_columns(list(columns)).with_format("arrow")[:]
