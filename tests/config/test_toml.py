"""Errors in a TOML file are one line: the key, the value, and what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fedsgt.config.toml import cannot_be_unset, explain, read_toml, unknown_key, wrong_keys
from fedsgt.errors import InputError


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    size: Annotated[int, Field(ge=1)] | list[Annotated[int, Field(ge=1)]] = 1
    kind: Literal["big", "small"] | None = None
    title: Annotated[str, Field(min_length=1)] = "x"
    place: Annotated[str, Field(min_length=1, pattern="^[cg]pu$")] = Field(
        "cpu", description="`cpu` or `gpu`"
    )


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: str
    inner: Inner = Field(default_factory=Inner)

    @model_validator(mode="after")
    def _check(self) -> Outer:
        if self.name == "bad":
            raise ValueError("name: bad is taken")
        return self


def explained(values: dict[str, Any]) -> list[str]:
    with pytest.raises(ValidationError) as error:
        Outer.model_validate(values)
    return explain(Outer, error.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "name: is missing; give it"),
        ({"name": 3}, "name: 3 is not allowed; it should be a text"),
        ({"name": "bad"}, "name: bad is taken"),
        ({"name": "a", "inner": 3}, "inner: 3 is not allowed; it should be a section, [inner]"),
        (
            {"name": "a", "inner": {"size": "b"}},
            "inner.size: 'b' is not allowed; it should be a whole number or a list",
        ),
        (
            {"name": "a", "inner": {"size": [1, 2, 0]}},
            "inner.size.2: 0 is not allowed; it should be at least 1",
        ),
        (
            {"name": "a", "inner": {"kind": "x"}},
            "inner.kind: 'x' is not allowed; it should be 'big' or 'small'",
        ),
        (
            {"name": "a", "inner": {"title": ""}},
            "inner.title: '' is not allowed; it should have at least 1 character",
        ),
        (
            {"name": "a", "inner": {"siez": 1}},
            "inner.siez: unknown key; did you mean size? (allowed: size, kind, title, place)",
        ),
        ({"name": "a", "zzz": 1}, "zzz: unknown key (allowed: name, inner)"),
        ({"name": "a", "b\nc": 1}, "'b\\nc': unknown key (allowed: name, inner)"),
        ({"name": "a", "inner": [1, 2]}, "inner: [1, 2] is not allowed; it should be a section, [inner]"),
        ({"name": "a", "inner": {"place": "tpu"}}, "inner.place: 'tpu' is not allowed; allowed: cpu or gpu"),
        ({"name": "a", "inner": {"place": ""}}, "inner.place: is empty; give one: cpu or gpu"),
        ({"name": ["x" * 500]}, f"name: ['{'x' * 98}... is not allowed; it should be a text"),
    ],
)
def test_a_problem_is_explained_in_one_line(values: dict[str, Any], message: str) -> None:
    assert explained(values) == [message]


def test_all_problems_are_told() -> None:
    values = {"name": 3, "inner": {"size": ["b", 0], "kind": "x", "sise": 1}, "innre": {}}
    assert explained(values) == [
        "name: 3 is not allowed; it should be a text",
        "inner.size.0: 'b' is not allowed; it should be a whole number",
        "inner.kind: 'x' is not allowed; it should be 'big' or 'small'",
        "inner.sise: unknown key; did you mean size? (allowed: size, kind, title, place)",
        "innre: unknown key; did you mean inner? (allowed: name, inner)",
    ]


def test_wrong_keys_are_those_and_what_misspelt_ones_may_mean() -> None:
    with pytest.raises(ValidationError) as error:
        Outer.model_validate({"name": 3, "inner": {"sise": 1, "qqq": 2}})
    expected = {("name",), ("inner", "sise"), ("inner", "size"), ("inner", "qqq")}
    assert wrong_keys(Outer, error.value) == expected


def test_only_known_keys_without_a_default_can_be_unset() -> None:
    assert cannot_be_unset(Outer, "inner", "kind") is None
    assert cannot_be_unset(Outer, "inner", "title") == (
        "inner.title: no value is given; give one, or leave it out for the default, 'x'"
    )
    assert str(cannot_be_unset(Outer, "innre", "kind")).startswith("innre: unknown key; did you mean inner?")
    told = str(cannot_be_unset(Outer, "inner", "kidn"))
    assert told.startswith("inner.kidn: unknown key; did you mean kind?")
    assert unknown_key(Outer, ["x"]) == "x: unknown key (allowed: name, inner)"


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(b"\xef\xbb\xbf[a]\r\nb = 1\r\n")
    assert read_toml(path) == {"a": {"b": 1}}


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    def refused(path: Path, hint: str = "") -> str:
        with pytest.raises(InputError) as error:
            read_toml(path, hint)
        return str(error.value).removeprefix(f"{path}: ")

    path = tmp_path / "a.toml"
    assert refused(path) == "no such file"
    assert refused(path, "; make one") == "no such file; make one"
    assert refused(tmp_path) == "cannot be read (Is a directory)"
    path.write_bytes(b"\xff\xfe")
    assert refused(path) == "cannot be read (it is not text in UTF-8)"
    path.write_text("a = [")
    assert refused(path).startswith("not TOML: ")
    path.write_text("a = 2001-02-30")
    assert refused(path).startswith("not TOML: ")
    path.write_text("a = " + "[" * 100_000)
    assert refused(path) == "not TOML: nested too deeply"
    path.write_text("a = [1]")
    assert read_toml(path) == {"a": [1]}
