"""Rows of text files: what they are called, and what is no text."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedsgt.data.sources.rows import RowTable, read_text
from fedsgt.errors import InputError


def test_rows_are_called_by_their_lines_also_after_a_choice() -> None:
    table = RowTable(Path("a/x.csv"), {"id": ["p", "q", "r"], "n": [1, None, "3"]}, [2, 5, 6])
    assert (table.where, table.folder, len(table)) == ("a/x.csv", Path("a"), 3)
    assert (table.places(1), table.places(0, 2), table.number(1)) == ("line 5", "lines 2 and 6", 5)
    chosen = table.select([2, 0])
    assert (chosen.names("id"), chosen.names("n"), chosen.places(0)) == (["r", "p"], ["3", 1], "line 6")
    assert (table.has("n"), table.has("m")) == (True, False)


@pytest.mark.parametrize("value", [1.5, True, [1], {}, b"x"])
def test_a_value_of_another_type_is_named(value: object) -> None:
    table = RowTable(Path("x.jsonl"), {"id": ["p", value]}, [1, 2])
    with pytest.raises(
        InputError, match=rf"^x\.jsonl: column 'id' is of type {type(value).__name__} in line 2;"
    ):
        table.names("id")


def test_numbers_are_no_contents() -> None:
    with pytest.raises(InputError, match="column 'text' is of type int in line 1; allowed: a text"):
        RowTable(Path("x.jsonl"), {"text": [7]}, [1]).contents("text")


def test_a_text_is_read_without_its_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes("\ufeffa\r\nb\u2028".encode())
    assert read_text(tmp_path / "x") == "a\r\nb\u2028"
    with pytest.raises(InputError, match=r"cannot be read \(Is a directory\)"):
        read_text(tmp_path)
