"""Files of JSON lines: an object a line, a record each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsgt.data.sources.rows import RowTable, read_text
from fedsgt.data.sources.table import check_columns
from fedsgt.errors import InputError
from fedsgt.words import one_line


def read_jsonl(
    path: Path, wanted: Sequence[str], optional: Sequence[str] = (), hints: Mapping[str, str] | None = None
) -> RowTable:
    """Return these columns, which every line must have; those that are `optional` are None where missing."""
    columns: dict[str, list[Any]] = {name: [] for name in (*wanted, *optional)}
    lines = []
    for line, values in json_rows(read_text(path), str(path)):
        check_columns(list(values), wanted, f"{path}, line {line}", hints)
        lines.append(line)
        for name, column in columns.items():
            column.append(values.get(name))
    return RowTable(path, columns, lines)


def jsonl_columns(path: Path) -> list[str]:
    """Return the keys of the first line that is not blank; no other line is read."""
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as file:
            return next((list(parse_line(line, str(path))) for line in file if line.strip()), [])
    except (OSError, ValueError):  # also `InputError`
        # Read again: this says what is wrong, and in which line.
        return list(next(json_rows(read_text(path), str(path)), (1, {}))[1])


def json_rows(text: str, where: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the object of each line that is not blank, with the line's number."""
    # `splitlines` would also split at characters that may stand inside a text, such as U+2028.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, parse_line(line, f"{where}, line {number}")


def parse_line(line: str, where: str) -> dict[str, Any]:
    """Return the object of one line; raise `InputError` if the line has another thing, or none."""
    try:
        values = json.loads(line, object_pairs_hook=_each_key_once)
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: not JSON ({error.msg} at column {error.colno})") from None
    except RecursionError:
        raise InputError(f"{where}: not JSON that can be read (nested too deeply)") from None
    except ValueError as error:  # a key twice, or a number of thousands of digits
        raise InputError(f"{where}: not JSON that can be read ({one_line(error)})") from None
    if not isinstance(values, dict):
        raise InputError(f"{where}: not a JSON object; allowed: an object for each record")
    return values


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in one object; readers differ in which they take")
    return found
