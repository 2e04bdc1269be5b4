"""Reading of records to predict, images or texts, from files and standard input."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from fedsgt.config import Config
from fedsgt.data import Record
from fedsgt.data.sources.parquet import read_parquet
from fedsgt.errors import InputError
from fedsgt.files.optional import require
from fedsgt.runs.records import input_columns
from fedsgt.words import one_line

STDIN = "-"


def read_records(files: Sequence[str], run: Config, stdin: BinaryIO) -> list[Record]:
    """Return the records in these files, in order; read standard input if no file is given."""
    # Without a pipe, reading would wait for somebody to type records.
    if not files and stdin.isatty():
        raise InputError(
            "there is nothing to predict; give files, pipe records into standard input, or use --test"
        )
    reader = Reader(run.model.task, input_columns(run), run.data.id_column, stdin)
    found = [record for file in files or [STDIN] for record in reader.read(file)]
    if not found:
        raise InputError(f"{', '.join(map(_shown, files or [STDIN]))}: there are no records")
    return found


@dataclass(frozen=True)
class Reader:
    """Reads records with the input columns of one run."""

    task: str
    """Either `image` or `text`."""
    columns: tuple[str, ...]
    """Names of the input columns."""
    id_column: str
    """Name of the column with the record's id, which a record need not have."""
    stdin: BinaryIO

    def read(self, file: str) -> Iterator[Record]:
        """Read a file by its suffix; where records are images, any other suffix is an image file."""
        if file == STDIN:
            return self._lines(self.stdin.read(), file, self._json if self.task == "image" else self._either)
        kinds: dict[str, Callable[[str], Iterator[Record]]] = {
            ".jsonl": self._jsonl,
            ".parquet": self._parquet,
        }
        if self.task == "text":
            kinds[".txt"] = self._txt
        suffix = Path(file).suffix.lower()
        if suffix not in kinds and self.task == "text":
            raise InputError(f"{file}: unknown suffix; allowed: {', '.join(sorted(kinds))} or -")
        return kinds.get(suffix, self._image)(file)

    def _image(self, file: str) -> Iterator[Record]:
        if len(self.columns) > 1:
            raise InputError(f"{file}: one image, but a record has {self._named()}; give .jsonl")
        yield Record(file, (_bytes_of(file),))

    def _jsonl(self, file: str) -> Iterator[Record]:
        return self._lines(_bytes_of(file), file, self._json)

    def _txt(self, file: str) -> Iterator[Record]:
        return self._lines(_bytes_of(file), file, self._plain)

    def _lines(self, data: bytes, file: str, read: Callable[[str, str, str], Record]) -> Iterator[Record]:
        """Read a record from each line that is not blank; its number stands in for an id."""
        try:
            text = data.decode("utf-8-sig")  # editors on Windows put a mark before the first character
        except UnicodeDecodeError:
            raise InputError(f"{_shown(file)}: not a text in UTF-8") from None
        # `splitlines` would also split at characters that may stand inside a text, such as U+2028.
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                name = str(number) if file == STDIN else f"{file}:{number}"
                yield read(line.strip("\r"), name, f"{_shown(file)}, line {number}")

    def _either(self, line: str, name: str, where: str) -> Record:
        return (self._json if line.lstrip().startswith("{") else self._plain)(line, name, where)

    def _plain(self, line: str, name: str, where: str) -> Record:
        if len(self.columns) > 1:
            raise InputError(f"{where}: one text, but a record has {self._named()}; give JSON")
        return Record(name, (line,))

    def _json(self, line: str, name: str, where: str) -> Record:
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: not JSON ({one_line(error)})") from None
        if not isinstance(values, dict):
            raise InputError(f"{where}: not a JSON object; allowed: an object with {self._named()}")
        for column in self.columns:
            if column not in values:
                known = ", ".join(map(repr, values)) or "none"
                raise InputError(f"{where} has no column {column!r}; its columns: {known}")
        contents = [self._from_json(values[column], column, where) for column in self.columns]
        return Record(_name(values.get(self.id_column), name), tuple(contents))

    def _from_json(self, value: Any, column: str, where: str) -> bytes | str:
        if self.task == "text" or not isinstance(value, str):
            return self._checked(value, column, where)
        try:
            # Validated: otherwise a text that is no base64 would lose characters and become a broken image.
            return base64.b64decode(value, validate=True)
        except ValueError:
            raise InputError(
                f"{where}: column {column!r} is not base64; give the image file in base64"
            ) from None

    def _parquet(self, file: str) -> Iterator[Record]:
        # The id is asked for only if it is there: records to predict need none.
        ids = [self.id_column] if self.id_column in _columns_of(file) else []
        try:
            rows = read_parquet(Path(file), [*self.columns, *ids]).to_pylist()
        except UnicodeDecodeError:
            raise InputError(f"{file}: holds text that is not UTF-8") from None
        for number, row in enumerate(rows, start=1):
            where = f"{file}, row {number}"
            contents = [self._checked(row[column], column, where) for column in self.columns]
            yield Record(_name(row.get(self.id_column), f"{file}:{number}"), tuple(contents))

    def _checked(self, value: Any, column: str, where: str) -> bytes | str:
        """Return a text, or the bytes of an image; raise if the value is neither."""
        if self.task == "image":
            # The datasets library stores an image as {"bytes": ..., "path": ...}.
            data = value.get("bytes") if isinstance(value, dict) else value
            if isinstance(data, bytes):
                return data
            raise InputError(f"{where}: column {column!r} is not the bytes of an image")
        if isinstance(value, str) and _is_unicode(value):
            return value
        raise InputError(f"{where}: column {column!r} is not a text")

    def _named(self) -> str:
        return " and ".join(map(repr, self.columns))


def _name(given: Any, instead: str) -> str:
    """Return the record's own id, or `instead` if it has none."""
    return str(given) if isinstance(given, str | int) and given != "" else instead


def _bytes_of(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except FileNotFoundError:
        raise InputError(f"{file}: no such file") from None
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from None


def _columns_of(file: str) -> list[str]:
    """Return the file's columns; empty if it is no parquet file, which reading it will tell."""
    arrow, parquet = require("pyarrow"), require("pyarrow.parquet")
    if not Path(file).exists():
        raise InputError(f"{file}: no such file")
    try:
        return list(parquet.read_schema(file).names)
    except (OSError, arrow.ArrowException):
        return []


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(file: str) -> str:
    return "standard input" if file == STDIN else file
