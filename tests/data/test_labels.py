"""Labels: declared, looked up, and never guessed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsgt.data.labels import Labels
from fedsgt.errors import InputError


def read(labels: Labels, *values: Any) -> list[int]:
    return labels.read(values, [f"r{i}" for i in range(len(values))], "x.csv")


def test_whole_numbers_are_labels_themselves() -> None:
    labels = Labels.declared(12, None, None, "x.csv")
    assert (labels.count, labels.names) == (12, None)
    assert read(labels, 0, "0", 11, "11") == [0, 0, 11, 11]


@pytest.mark.parametrize(
    "value",
    [-1, "-1", 12, "12", "01", "+1", " 1", "1 ", "1.0", 1.0, "", None, True, "\u0661", b"1", "9" * 5000, [1]],
)
def test_everything_else_is_none(value: Any) -> None:
    with pytest.raises(
        InputError, match=r"^x\.csv: record 'r0' has (the label .*|no label); allowed: whole numbers from 0 "
    ):
        read(Labels.declared(12, None, None, "x.csv"), value)


def test_texts_are_looked_up() -> None:
    labels = Labels.declared(None, ["dog", "cat"], None, "x.csv")
    assert read(labels, "cat", "dog", "cat") == [1, 0, 1]
    # Numbers are labels too, as no label is called by one.
    assert read(labels, 1, "0") == [1, 0]
    for value in ("Cat", "cat ", "bird", 2, True, None):
        with pytest.raises(InputError, match=r"allowed: 'dog', 'cat' \(data\.label_names\)$"):
            read(labels, value)


def test_labels_that_are_called_by_numbers() -> None:
    labels = Labels.declared(None, ["5", "3", "other"], None, "x.csv")
    assert read(labels, "3", 5, "other") == [1, 0, 2]
    for value in (0, "0", 1, "2"):
        with pytest.raises(InputError, match="allowed: '5', '3', 'other'"):
            read(labels, value)


def test_what_a_source_declares() -> None:
    assert Labels.declared(None, None, ["a", "b"], "x").names == ("a", "b")
    # A number in the settings wins, and names that do not fit are dropped.
    assert Labels.declared(3, None, ["a", "b"], "x") == Labels(3)
    assert read(Labels.declared(None, None, ["a", "b"], "x"), 1, 0) == [1, 0]


def test_names_of_the_settings_over_those_of_the_source() -> None:
    """The source's numbers stand for its own names: in another order they are other labels."""
    assert read(Labels.declared(None, ["b", "c", "a"], ["a", "b"], "x"), 0, 1) == [2, 0]
    # Other names than the source's are translations of them.
    renamed = Labels.declared(None, ["1", "0"], ["no", "yes"], "x")
    assert (read(renamed, 0, 1), renamed.names) == ([0, 1], ("1", "0"))


def test_what_does_not_fit() -> None:
    with pytest.raises(InputError, match=r"data\.label_names has 2 names, but there are 3 labels"):
        Labels.declared(3, ["a", "b"], None, "x")
    with pytest.raises(InputError, match="has a name twice"):
        Labels.declared(None, ["a", "a"], None, "x")
    for source in (None, ["a"], []):
        with pytest.raises(
            InputError, match=r"^x: (nothing|there is 1).*fedsgt init FILE --data SOURCE writes it"
        ):
            Labels.declared(None, None, source, "x")


def test_many_names_are_not_all_told() -> None:
    labels = Labels.declared(None, [f"name-{i}" for i in range(1000)], None, "x")
    with pytest.raises(InputError, match=r"'name-19' \.\.\. \(data\.label_names\)$"):
        read(labels, "none")


@given(st.lists(st.text(), min_size=2, unique=True))
def test_every_name_is_its_place(names: list[str]) -> None:
    assert read(Labels.declared(None, names, None, "x"), *names) == list(range(len(names)))
