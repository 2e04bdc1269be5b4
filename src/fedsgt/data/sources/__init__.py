"""Open a source of records: the embedded digits, parquet files, or a data set of the hub."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from fedsgt.data.dataset import Columns, Dataset
from fedsgt.data.sources.arrow import dataset_from_arrow
from fedsgt.data.sources.digits import PARTS, load_digits
from fedsgt.data.sources.hub import open_hub, read_split
from fedsgt.data.sources.parquet import SUFFIX, parts_of, read_parquet
from fedsgt.errors import InputError

DIGITS = "digits"


def load_dataset(
    source: str,
    columns: Columns,
    *,
    split: Literal["train", "test", "public"] = "train",
    test: str | None = None,
    labels: int | None = None,
    limit: int | None = None,
) -> Dataset:
    """Return the records of one split, in the order of their ids.

    `test` names the test split: a parquet file or a part of the source; by default the part called test, or
    else validation. `labels` overrides the number of labels that the source declares. Digits have columns of
    their own; their part `public` is held by no client.
    """
    if limit is not None and limit < 1:
        raise InputError(f"limit is {limit}; allowed: at least 1 record")
    wanted: tuple[str, ...] = (split,)
    if split == "test":
        wanted = ("test", "validation") if test is None else (test,)
    # A test file of its own goes with every source, also with one that has a test part.
    if split == "test" and test is not None and _is_path(test):
        file = _existing_file(test, "data.test")
        rows, where = read_parquet(file, columns.names()), str(file)
    elif source == DIGITS:
        _check_no_owners(columns)
        return load_digits(_part(wanted, PARTS, DIGITS), labels=labels, limit=limit)
    else:
        rows, where = _read_part(source, wanted, columns.names())
    return dataset_from_arrow(rows, columns, where=where, labels=labels, limit=limit)


def _read_part(source: str, wanted: tuple[str, ...], columns: tuple[str, ...]) -> tuple[Any, str]:
    """Return the rows of the first wanted part that the source has, and where they are, for messages."""
    path = Path(source).expanduser()
    if path.is_dir():
        parts = parts_of(path)
        file = parts[_part(wanted, parts, source)]
    # A file that is there wins over a data set of the same name on the hub: nothing is downloaded by
    # surprise.
    elif path.exists() or _is_path(source):
        file = _single_file(source, wanted)
    else:
        splits = open_hub(source)
        part = _part(wanted, splits, source)
        where = f"{source} ({part})"
        return read_split(splits[part], columns, where), where
    return read_parquet(file, columns), str(file)


def _single_file(source: str, wanted: tuple[str, ...]) -> Path:
    file = _existing_file(source, "data.source")
    # One file would have to serve for training and testing, and then the accuracy would mean nothing.
    if wanted != ("train",):
        raise InputError(
            f"data.source {source!r} is one file and has no part {_either(wanted)}; "
            "set data.test to a parquet file"
        )
    return file


def _check_no_owners(columns: Columns) -> None:
    if columns.client is not None:
        raise InputError(
            f"{DIGITS} has no column {columns.client!r}: its records have no owners; "
            "allowed for data.partition: iid or dirichlet"
        )


def _is_path(text: str) -> bool:
    """Return whether the text means a file or folder, there or not; the hub is not asked for such a text."""
    # A name such as "mnist" is asked of the hub only after no file of that name was found.
    return text.startswith((".", "~")) or text.endswith(SUFFIX) or Path(text).is_absolute()


def _existing_file(text: str, key: str) -> Path:
    path = Path(text).expanduser()
    if not path.exists():
        raise InputError(f"{key} {text!r} does not exist; allowed: a {SUFFIX} file or a folder of them")
    if not path.is_file() or path.suffix != SUFFIX:
        raise InputError(f"{key} {text!r} is not a {SUFFIX} file")
    return path


def _part(wanted: tuple[str, ...], present: Iterable[str], where: str) -> str:
    """Return the first wanted part that the source has."""
    names = list(present)
    for name in wanted:
        if name in names:
            return name
    raise InputError(
        f"data.source {where!r} has no part {_either(wanted)}; its parts: {', '.join(names) or 'none'}"
    )


def _either(names: tuple[str, ...]) -> str:
    return " or ".join(names)
