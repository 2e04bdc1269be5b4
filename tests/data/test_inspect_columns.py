"""Columns are told apart by their names and by their values, and never picked twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fedsgt.data.inspect_columns import CLIENT, ID, LABEL, Column, Picker
from fedsgt.errors import InputError

KINDS: dict[str, list[Any]] = {
    "images": [b"P5", None, b"P6"],
    "paths": ["a/1.png", "b/2.JPG", ""],
    "text": ["good", "1.png of mine", "7"],
    "number": [1, 0, -3],
    "other": [1.5, 2.0, None],
}
OTHER_KINDS = [
    ("images", [{"bytes": b"x", "path": None}]),
    ("number", ["7", "-12", "0"]),
    ("number", ["007", "1", "2"]),
    ("other", ["0.5", "1", "2e3"]),
    ("other", [True, False]),
    ("other", ["a", 1]),
    ("other", [["a"], ["b"]]),
    ("other", [{"path": "x.png"}]),
    ("other", [None, ""]),
    ("other", []),
]


@pytest.mark.parametrize(("kind", "values"), [*KINDS.items(), *OTHER_KINDS])
def test_kinds_of_columns(kind: str, values: list[Any]) -> None:
    assert Column("x", values).kind == kind


def picker(**columns: list[Any]) -> Picker:
    return Picker("file.csv", [Column(name, values) for name, values in columns.items()])


def test_usual_names_are_known_however_they_are_written() -> None:
    rows = picker(Record_ID=["a", "b", "c"], ID=["x", "x", "y"], Class=["0", "1", "0"])
    found, label = rows.usual(ID), rows.usual(LABEL)
    assert found is not None
    assert label is not None
    assert found.name == "Record_ID", "the other has a value twice"
    assert label.name == "Class"


def test_owners_have_many_records_each() -> None:
    owners = [f"u{number % 3}" for number in range(30)]
    found = picker(user=[str(number) for number in range(30)], site=owners).usual(CLIENT)
    assert found is not None
    assert found.name == "site"
    assert picker(site=owners[:29]).usual(CLIENT) is None, "fewer than ten records each"
    assert picker(site=[*owners[:29], ""]).usual(CLIENT) is None, "a record without an owner"
    assert picker(site=["one"] * 30).usual(CLIENT) is None


def test_without_a_usual_name_the_values_decide() -> None:
    rows = picker(
        number=["1", "2", "3", "4", "5", "6"],
        remark=["short", "longer text", "x", "y", "z", "the longest text of all"],
        mood=["good", "bad", "good", "bad", "bad", "good"],
        weight=["0.5", "0.25", "0.125", "1", "2", "3"],
    )
    assert [column.name for column in rows.inputs()] == ["remark"]
    assert rows.labels().name == "mood"
    assert rows.ids().name == "number"


def test_images_come_before_texts_and_bytes_before_paths() -> None:
    columns: dict[str, list[Any]] = {"sentence": ["a", "b"], "file": ["a.png", "b.png"], "scan": [b"1", b"2"]}
    rows = picker(**columns)
    assert [[column.name for column in rows.inputs()] for _ in range(3)] == [["scan"], ["file"], ["sentence"]]


def test_pairs_of_texts_are_taken_together() -> None:
    rows = picker(Hypothesis=["a b", "b"], premise=["c", "d"], text=["e", "f"])
    assert [column.name for column in rows.inputs()] == ["premise", "Hypothesis"]


def test_what_is_asked_for_is_taken_if_it_can_be() -> None:
    rows = {"id": ["a", "b", "c"], "name": ["x", "y", "z"], "kind": ["k", "l", "m"]}
    found = picker(**rows).asked(ID, "name")
    assert found is not None
    assert found.name == "name"
    label = picker(**rows).asked(LABEL, "kind")
    assert label is not None
    assert label.name == "kind", "whoever names it knows better than a rule of thumb"


WRONG: dict[str, tuple[Callable[[Picker], object], str]] = {
    "no such column": (
        lambda rows: rows.asked(ID, "nope"),
        "--id-column 'nope' is no column",
    ),
    "not unique": (lambda rows: rows.asked(ID, "b"), "--id-column 'b' has no ids: a value of its own"),
    "one label": (
        lambda rows: rows.asked(LABEL, "one"),
        "--label-column 'one' has no labels: 2 to",
    ),
    "gaps": (lambda rows: rows.asked(CLIENT, "gaps"), "--client-column 'gaps' has no owners"),
    "no text": (
        lambda rows: rows.asked_inputs(["c"]),
        "'c' cannot be the input; allowed: one or",
    ),
    "mixed": (lambda rows: rows.asked_inputs(["a", "d"]), "'a', 'd' cannot be the input"),
    "twice": (lambda rows: rows.asked_inputs(["a", "a"]), "--input-column 'a' is given twice"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_is_told(name: str) -> None:
    act, message = WRONG[name]
    rows = picker(a=["x", "y"], b=["1", "1"], c=[1.5, 2.5], d=[b"x", b"y"], one=["k", "k"], gaps=["k", ""])
    with pytest.raises(InputError) as error:
        act(rows)
    assert message in str(error.value)
    assert str(error.value).startswith("file.csv: ")


def test_what_is_missing_is_told_with_the_option_that_names_it() -> None:
    empty = picker(x=[1.5, 1.5])
    for act, option in (
        (empty.ids, "--id-column NAME, or '#row' if rows never move"),
        (empty.labels, "--label-column NAME"),
        (empty.inputs, "--input-column NAME"),
    ):
        with pytest.raises(InputError) as error:
            act()
        assert str(error.value).endswith(f"its columns: 'x'; name one with {option}")
