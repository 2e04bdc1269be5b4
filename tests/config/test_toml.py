"""Errors in a TOML file are one line: the key, the value, and what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fedsgt.config.toml import check_known, explain, read_toml, unknown_key
from fedsgt.errors import InputError


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    size: Annotated[int, Field(ge=1)] | list[Annotated[int, Field(ge=1)]] = 1
    kind: Literal["big", "small"] | None = None
    title: Annotated[str, Field(min_length=1)] = "x"


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: str
    inner: Inner = Field(default_factory=Inner)

    @model_validator(mode="after")
    def _check(self) -> Outer:
        if self.name == "bad":
            raise ValueError("name: bad is taken")
        return self


def explained(values: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as error:
        Outer.model_validate(values)
    return explain(Outer, error.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "name: is missing; give it"),
        ({"name": 3}, "name: 3 is not allowed; it should be a valid string"),
        ({"name": "bad"}, "name: bad is taken"),
        ({"name": "a", "inner": 3}, "inner: 3 is not allowed; it should be a section, [inner]"),
        (
            {"name": "a", "inner": {"size": "b"}},
            "inner.size: 'b' is not allowed; it should be a valid integer or a valid list",
        ),
        (
            {"name": "a", "inner": {"size": [1, 2, 0]}},
            "inner.size.2: 0 is not allowed; it should be greater than or equal to 1",
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
            "inner.siez: unknown key; did you mean size? (allowed: size, kind, title)",
        ),
        ({"name": "a", "zzz": 1}, "zzz: unknown key (allowed: name, inner)"),
        ({"name": "a", "b\nc": 1}, "'b\\nc': unknown key (allowed: name, inner)"),
        (
            {"name": 3, "inner": {"size": "b", "kind": "x"}},
            "name: 3 is not allowed; it should be a valid string (and 2 more)",
        ),
    ],
)
def test_the_first_problem_is_explained(values: dict[str, Any], message: str) -> None:
    assert explained(values) == message


def test_only_known_keys_can_be_removed() -> None:
    check_known(Outer, "inner", "size")
    with pytest.raises(InputError, match=r"^innre: unknown key; did you mean inner\?"):
        check_known(Outer, "innre", "size")
    with pytest.raises(InputError, match=r"^inner\.kidn: unknown key; did you mean kind\?"):
        check_known(Outer, "inner", "kidn")
    assert unknown_key(Outer, ["x"]) == "x: unknown key (allowed: name, inner)"


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
    path.write_text("a = [1]")
    assert read_toml(path) == {"a": [1]}
