"""Rows of text files, csv or jsonl: read whole, and every value kept as it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsgt.data.sources.table import Table
from fedsgt.errors import InputError
from fedsgt.files.encoding import is_unicode


class RowTable(Table):
    """Columns of a text file, with the line that each row begins in."""

    def __init__(self, path: Path, columns: Mapping[str, Sequence[Any]], lines: Sequence[int]) -> None:
        self.path, self.where, self.folder = path, str(path), path.parent
        self.columns, self.lines = columns, lines

    def __len__(self) -> int:
        return len(self.lines)

    def names(self, column: str) -> list[str | int | None]:
        return self._checked(column, (str, int), "a text or whole number")

    def values(self, column: str) -> Sequence[Any]:
        return self.columns[column]

    def has(self, column: str) -> bool:
        return column in self.columns

    def number(self, row: int) -> int:
        return self.lines[row]

    def contents(self, column: str) -> list[str | None]:
        return self._checked(column, (str,), "a text")

    def select(self, rows: Sequence[int]) -> RowTable:
        columns = {name: [values[row] for row in rows] for name, values in self.columns.items()}
        return RowTable(self.path, columns, [self.lines[row] for row in rows])

    def places(self, *rows: int) -> str:
        return f"line{'s' * (len(rows) > 1)} {' and '.join(str(self.lines[row]) for row in rows)}"

    def _checked(self, column: str, kinds: tuple[type, ...], allowed: str) -> list[Any]:
        """Return a column; raise if a value that is there is of another type."""
        values = self.columns[column]
        for row, value in enumerate(values):
            if value is None:
                continue
            problem = ""
            if type(value) not in kinds:  # bool is a subclass of int
                problem = f"is of type {type(value).__name__}"
            elif isinstance(value, str) and not is_unicode(value):  # an escape of JSON can write it
                problem = "has half of a surrogate pair"
            if problem:
                raise InputError(
                    f"{self.where}: column {column!r} {problem} in {self.places(row)}; allowed: {allowed}"
                )
        return list(values)


def read_text(path: Path) -> str:
    """Return the whole text of a file; an error names the line that is no text."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})") from None
    try:
        text = data.decode("utf-8-sig")  # programs on Windows put a mark before the first character
    except UnicodeDecodeError as error:
        # Counted in the object that was decoded, which has no mark any more.
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {line}: not text in UTF-8; save the file as UTF-8") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(f"{path}, line {line}: a NUL byte, which no text has; save the file as UTF-8")
    return text
