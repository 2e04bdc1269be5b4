"""Files of comma-separated values. Every value is a text, exactly as it is written: the id 007 stays 007."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsgt.data.sources.rows import RowTable, read_text
from fedsgt.data.sources.table import check_columns
from fedsgt.errors import InputError
from fedsgt.words import counted, one_line

# A field of more than 128 KiB is an error in the standard library, unless it is told otherwise.
_LONGEST_FIELD = 2**31 - 1
_OTHER_SEPARATORS = (";", "\t", "|")


def read_csv(
    path: Path, wanted: Sequence[str], optional: Sequence[str] = (), hints: Mapping[str, str] | None = None
) -> RowTable:
    """Return these columns of a csv file with a header; those that are `optional` if they are there."""
    rows = _rows(path)
    _, header = next(rows, (1, []))
    if not header:
        raise InputError(f"{path}: it is empty; allowed: a line with the names of columns, and then records")
    check_columns(header, wanted, str(path), hints_for(header, hints))
    names = [*wanted, *(name for name in optional if header.count(name) == 1 and name not in wanted)]
    places = [header.index(name) for name in names]
    columns: list[list[str]] = [[] for _ in names]
    lines = []
    for line, row in rows:
        if len(row) != len(header):
            raise InputError(
                f"{path}, line {line}: {counted(len(row), 'value')}, where the first line has {len(header)} "
                'columns; put values with commas or line breaks in them into quotes: "..."'
            )
        lines.append(line)
        for column, place in zip(columns, places, strict=True):
            column.append(row[place])
    return RowTable(path, dict(zip(names, columns, strict=True)), lines)


def csv_columns(path: Path) -> list[str]:
    """Return the names of the columns of a csv file, of which only the beginning is read."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return next((row for row in csv.reader(file, strict=True) if row), [])
    except (OSError, ValueError, csv.Error):
        return next(_rows(path), (1, []))[1]  # says what is wrong, and in which line


def strict_reader(lines: Iterable[str]) -> Any:
    """Return the standard library's reader of rows, as all csv files are read and rewritten here.

    It raises `csv.Error` where it would have to guess.
    """
    # A setting of the whole process, so it is not put back: another thread may be reading, too.
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_FIELD))
    return csv.reader(lines, strict=True)


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield every row that is not blank, with the line that it begins in."""
    # Line ends stay as they are: those inside of quotes belong to the value.
    reader = strict_reader(io.StringIO(read_text(path), newline=""))
    line = 1
    try:
        for row in reader:
            if row:
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path}, line {line}: not csv ({one_line(error)})") from None


def hints_for(header: Sequence[str], hints: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """Return the hints, or another one if the columns seem to be separated by something else."""
    other = next((mark for mark in _OTHER_SEPARATORS if len(header) == 1 and mark in header[0]), None)
    if other is None or hints is None:
        return hints
    return dict.fromkeys(hints, f"columns are separated by commas, not by {other!r}")
