"""Csv and JSON-lines files without deleted rows: every row that stays keeps its exact bytes."""

import csv
import io
from collections.abc import Callable, Collection, Iterator
from typing import BinaryIO, TypeAlias

from fedsgt.data.sources.csv_files import strict_reader
from fedsgt.data.sources.json_lines import parse_line
from fedsgt.data.sources.table import check_columns
from fedsgt.errors import InputError

BOM = "\ufeff"
# Text of a row and its id; the id is None for what is no row, such as the header and empty lines.
Piece: TypeAlias = tuple[str, str | None]
Pieces: TypeAlias = Callable[[str, str], Iterator[Piece]]


class TextCut:
    """A text file without the rows of some ids; `pieces` takes a text apart as its format says."""

    def __init__(self, pieces: Pieces, old: BinaryIO, id_column: str, gone: Collection[str]) -> None:
        found = list(pieces(_read(old), id_column))
        self._staying = [piece for piece in found if piece[1] is None or piece[1] not in gone]
        self._pieces, self._id_column = pieces, id_column
        self.leaving = len(found) - len(self._staying)

    def write(self, new: BinaryIO) -> None:
        """Write the rows that stay."""
        new.writelines(text.encode() for text, _ in self._staying)

    def is_whole(self, new: BinaryIO) -> bool:
        """Read the new file, and return whether it has exactly the rows that stay."""
        # Taken apart again, so that no row can have become a part of another.
        return list(self._pieces(_read(new), self._id_column)) == self._staying


def csv_pieces(text: str, id_column: str) -> Iterator[Piece]:
    """Take a csv text apart: its header, its rows, which may have several lines, and empty lines."""
    if text.startswith(BOM):
        yield BOM, None
    lines = _Lines(text.removeprefix(BOM))
    rows = strict_reader(lines)
    header: list[str] = []
    try:
        for fields in rows:
            piece = lines.taken()
            if not fields:
                yield piece, None
            elif not header:
                header = fields
                check_columns(header, [id_column], "it")
                yield piece, None
            elif len(fields) != len(header):
                raise InputError(
                    f"line {rows.line_num} has {len(fields)} fields, and the header {len(header)}"
                )
            else:
                yield piece, fields[header.index(id_column)]
    except csv.Error as error:
        raise InputError(f"line {rows.line_num}: {error}") from error


class _Lines:
    """Lines of a text, with their ends; notes which of them were asked for since the last look."""

    def __init__(self, text: str) -> None:
        self._lines, self._since = io.StringIO(text, newline=""), list[str]()

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self._since.append(line)
            yield line

    def taken(self) -> str:
        """Return the lines that were asked for since the last call."""
        found, self._since = "".join(self._since), []
        return found


def json_pieces(text: str, id_column: str) -> Iterator[Piece]:
    """Take JSON lines apart: one object a line, and empty lines."""
    if text.startswith(BOM):
        yield BOM, None  # a piece of its own, which stays if the first row goes
    # Only this ends a line: others of Unicode's line ends may stand inside of a JSON text.
    lines = io.StringIO(text.removeprefix(BOM), newline="\n")
    for number, line in enumerate(lines, start=1):
        yield line, _json_id(line, id_column, number) if line.strip() else None


def _json_id(line: str, id_column: str, number: int) -> str | None:
    value = parse_line(line, f"line {number}").get(id_column)
    return str(value) if type(value) in (str, int) else None


def _read(file: BinaryIO) -> str:
    file.seek(0)
    return file.read().decode()  # strictly UTF-8, so that encoding it again gives the same bytes
