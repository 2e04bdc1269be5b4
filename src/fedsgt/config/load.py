"""From a TOML file and dotted overrides to a run, or to one line that says what is wrong."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from fedsgt.config.model import Config
from fedsgt.errors import InputError


def load(path: Path | str | None = None, overrides: Iterable[str] = ()) -> Config:
    """The run of this file (the defaults without one), each `section.key=value` put over it.

    Without a value (`section.key=`) the key is as if the file did not have it.
    """
    values = {} if path is None else _read(Path(path))
    for override in overrides:
        _put(values, override)
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise InputError(_explain(error)) from None


def to_toml(run: Config) -> str:
    """The resolved run as TOML; what is not given stands as a comment."""
    parts = []
    for section, values in run.model_dump(mode="json").items():
        given = {key: value for key, value in values.items() if value is not None}
        unset = [f"# {key} is not given\n" for key, value in values.items() if value is None]
        parts.append(f"[{section}]\n{tomli_w.dumps(given)}{''.join(unset)}")
    return "\n".join(parts)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not TOML: {error}") from None


def _put(values: dict[str, Any], override: str) -> None:
    """Set one dotted key; a value that is not TOML is taken as text, so that no quotes are needed."""
    dotted, equals, text = override.partition("=")
    keys = dotted.strip().split(".")
    if not equals or len(keys) != 2 or not all(keys):
        raise InputError(f"{override!r}: not an override; write section.key=value, such as plan.budget=8")
    section = values.setdefault(keys[0], {})
    if not isinstance(section, dict):
        raise InputError(f"{keys[0]}: {section!r} is not a section")
    if not text.strip():
        _check_known(keys)
        section.pop(keys[1], None)
        return
    try:
        section[keys[1]] = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        section[keys[1]] = text.strip()


def _explain(error: ValidationError) -> str:
    """The first thing that is wrong, with key, value and what is allowed; and how much more there is."""
    problems = error.errors()
    first, more = problems[0], len({".".join(_keys(problem)) for problem in problems}) - 1
    return _problem(first, problems) + (f" (and {more} more)" if more else "")


def _problem(problem: ErrorDetails, problems: list[ErrorDetails]) -> str:
    keys = _keys(problem)
    if problem["type"] == "extra_forbidden":
        return _unknown(keys)
    if problem["type"] == "value_error":
        return problem["msg"].removeprefix("Value error, ")
    # A value of a key with several types fails once for each of them.
    allowed = [other["msg"].removeprefix("Input should be ") for other in problems if _keys(other) == keys]
    should = " or ".join(dict.fromkeys(allowed))
    return f"{'.'.join(keys)}: {problem['input']!r} is not allowed; it should be {should}"


def _keys(problem: ErrorDetails) -> list[str]:
    """Section and key; what pydantic adds about types and positions is left out."""
    return [str(part) for part in problem["loc"][:2]]


def _check_known(keys: list[str]) -> None:
    """That a key which is taken away could be there at all."""
    if keys[0] not in Config.model_fields:
        raise InputError(_unknown(keys[:1]))
    if keys[1] not in _keys_of(keys[0]):
        raise InputError(_unknown(keys))


def _keys_of(name: str) -> Mapping[str, Any]:
    section = Config.model_fields[name].annotation
    assert isinstance(section, type)
    assert issubclass(section, BaseModel)
    return section.model_fields


def _unknown(keys: list[str]) -> str:
    known: Mapping[str, Any] = _keys_of(keys[0]) if len(keys) > 1 else Config.model_fields
    close = difflib.get_close_matches(keys[-1], known, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"{'.'.join(keys)}: unknown key{hint} (allowed: {', '.join(known)})"
