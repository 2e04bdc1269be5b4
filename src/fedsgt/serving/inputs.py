"""Reading of records to predict, images or texts, from files and standard input."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from fedsgt.config import Config
from fedsgt.data import Record
from fedsgt.data.sources import FORMATS
from fedsgt.data.sources.files import SUFFIXES
from fedsgt.data.sources.image_paths import read_image
from fedsgt.data.sources.json_lines import parse_line
from fedsgt.data.sources.table import check_columns
from fedsgt.errors import InputError
from fedsgt.files.encoding import is_unicode
from fedsgt.runs.records import input_columns

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
        suffix = Path(file).suffix.lower()
        if suffix in SUFFIXES:
            return self._table(Path(file))
        if self.task == "image":
            return self._image(file)
        if suffix == ".txt":
            return self._lines(_bytes_of(file), file, self._plain)
        raise InputError(f"{file}: unknown suffix; allowed: {', '.join(sorted([*SUFFIXES, '.txt']))} or -")

    def _image(self, file: str) -> Iterator[Record]:
        if len(self.columns) > 1:
            raise InputError(f"{file}: one image, but a record has {self._named()}; give .csv or .jsonl")
        yield Record(file, (_bytes_of(file),))

    def _table(self, path: Path) -> Iterator[Record]:
        """Read a file of records as a training does, but for labels, and for ids that it may lack."""
        if not path.exists():
            raise InputError(f"{path}: no such file")
        table = FORMATS[SUFFIXES[path.suffix.lower()]].read(path, self.columns, [self.id_column], None)
        ids = table.values(self.id_column) if table.has(self.id_column) else [None] * len(table)
        inputs = zip(*(table.contents(column) for column in self.columns), strict=True)
        for row, (given, values) in enumerate(zip(ids, inputs, strict=True)):
            where = f"{path}, {table.places(row)}"
            contents = [
                self._checked(value, column, where, path)
                for column, value in zip(self.columns, values, strict=True)
            ]
            yield Record(_name(given, f"{path}:{table.number(row)}"), tuple(contents))

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
        values = parse_line(line, where)
        check_columns(list(values), self.columns, where)
        contents = [self._checked(values[column], column, where) for column in self.columns]
        return Record(_name(values.get(self.id_column), name), tuple(contents))

    def _checked(self, value: Any, column: str, where: str, file: Path | None = None) -> bytes | str:
        """Return a text, or the bytes of an image; raise if the value is neither.

        A text where an image is expected is its file in base64 (in JSON), or its path, which starts at the
        folder of the file.
        """
        if self.task == "text":
            if isinstance(value, str) and is_unicode(value):
                return value
            raise InputError(f"{where}: column {column!r} is not a text")
        if isinstance(value, bytes):
            return value
        if not isinstance(value, str):
            raise InputError(f"{where}: column {column!r} is not the bytes of an image")
        if file is None or file.suffix.lower() == ".jsonl":
            try:
                # Validated: otherwise a text that is no base64 would lose characters and be a broken image.
                return base64.b64decode(value, validate=True)
            except ValueError:
                if file is None:
                    raise InputError(
                        f"{where}: column {column!r} is not base64; give the image file in base64"
                    ) from None
        return read_image(value, file.parent, where)

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


def _shown(file: str) -> str:
    return "standard input" if file == STDIN else file
