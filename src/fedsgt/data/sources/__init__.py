"""Open a source of records: files and folders here, the embedded digits, or a data set of the hub."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fedsgt.data.dataset import Choice, Columns, Dataset
from fedsgt.data.sources.csv_files import csv_columns, read_csv
from fedsgt.data.sources.digits import PARTS, load_digits
from fedsgt.data.sources.files import TRAIN, Format, format_of
from fedsgt.data.sources.hub import open_hub, read_saved, read_split, saved_columns
from fedsgt.data.sources.image_folders import read_image_folder
from fedsgt.data.sources.json_lines import jsonl_columns, read_jsonl
from fedsgt.data.sources.parquet import open_parquet, parquet_columns
from fedsgt.data.sources.parts import (
    ALLOWED,
    DIGITS,
    Split,
    choose_part,
    is_place,
    local_parts,
    place_of_test,
)
from fedsgt.data.sources.table import Table, dataset_from_table, names_in
from fedsgt.errors import InputError
from fedsgt.files.places import missing_place
from fedsgt.words import counted


@dataclass(frozen=True)
class LocalFormat:
    """How one format is read."""

    read: Callable[[Path, Sequence[str], Sequence[str], Mapping[str, str] | None], Table]
    """Returns the wanted columns and the optional ones; the last argument has hints for missing ones."""
    columns: Callable[[Path], list[str]]
    """Returns the names of all columns."""


FORMATS: dict[Format, LocalFormat] = {
    "csv": LocalFormat(read_csv, csv_columns),
    "jsonl": LocalFormat(read_jsonl, jsonl_columns),
    "parquet": LocalFormat(open_parquet, parquet_columns),
    "saved": LocalFormat(read_saved, saved_columns),
    "images": LocalFormat(lambda folder, *_: read_image_folder(folder), lambda folder: []),
}
"""The formats of local files and folders."""


def load_dataset(
    source: str,
    columns: Columns,
    *,
    split: Split = TRAIN,
    test: str | None = None,
    test_share: float | None = None,
    labels: int | None = None,
    label_names: Sequence[str] | None = None,
    limit: int | None = None,
) -> Dataset:
    """Return the records of one split, in the order of their ids.

    `test` names the test split: a file, a folder, or a part of the source; by default it is the part called
    test, or else validation. If there is none, the share `test_share` of the training part is split off by a
    hash of the ids; without a share all of that part is for training. `labels` and `label_names` override
    what the source declares. Digits have columns of their own; no client holds their part `public`.
    """
    if limit is not None and limit < 1:
        raise InputError(f"limit is {limit}; allowed: at least 1 record")
    testing, share = split == "test", None
    # A test file of its own goes with every source, also with one that has a test part.
    if testing and test is not None and is_place(test):
        rows = read_part(place_of_test(test), columns)
    elif source == DIGITS:
        check_no_owners(columns)
        part, _ = choose_part(PARTS, DIGITS, split, test, None)
        return load_digits(part, labels=labels, label_names=label_names, limit=limit)
    else:
        parts = _openers(source)
        part, share = choose_part(parts, source, split, test, test_share)
        rows = parts[part](columns)
    choice = Choice(limit, share, testing)
    found = dataset_from_table(rows, columns, labels=labels, label_names=label_names, choice=choice)
    if testing and not found.records:
        kept = f"none of its {counted(len(rows), 'record')} is kept for testing (data.test_share is {share})"
        raise InputError(f"{rows.where}: {kept if share else 'there are no rows'}; set data.test to a file")
    return found


def read_part(path: Path, columns: Columns) -> Table:
    """Return the rows of a file, or of a folder that is one part of a source."""
    found = format_of(path)
    if found is None:
        if not path.exists():
            raise InputError(missing_place(str(path), allowed=ALLOWED))
        raise InputError(f"{path} is of no known format; allowed: {ALLOWED}")
    return FORMATS[found].read(path, columns.names(), (), columns.hints())


def read_names(path: Path, *columns: str) -> list[list[str]]:
    """Return columns of ids or owners of a file or folder that is one part of a source."""
    found = format_of(path)
    if found is None:
        raise InputError(f"{path} is not there, or of no known format")
    table = FORMATS[found].read(path, columns, (), None)
    return [names_in(table, column) for column in columns]


def _openers(source: str) -> Mapping[str, Callable[[Columns], Table]]:
    """Return a function for each part of the source that reads its rows."""
    parts = local_parts(source)
    if parts is not None:
        return {name: partial(read_part, part) for name, part in parts.items()}
    splits = open_hub(source)
    return {name: partial(_read_hub, splits[name], f"{source} ({name})") for name in splits}


def _read_hub(split: Any, where: str, columns: Columns) -> Table:
    return read_split(split, columns.names(), where, (), columns.hints())


def check_no_owners(columns: Columns) -> None:
    """Refuse the digits where records must have owners."""
    if columns.client is not None:
        raise InputError(
            f"{DIGITS} has no column {columns.client!r}: its records have no owners; "
            "allowed for data.partition: iid or dirichlet"
        )
