"""Reads TOML files, and explains values that do not fit; for runs, servers and clients."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from fedsgt.errors import InputError


def read_toml(path: Path, if_missing: str = "") -> dict[str, Any]:
    """Return the values of the file; `if_missing` is added to the message if there is no such file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file{if_missing}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: cannot be read (it is not text in UTF-8)") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not TOML: {error}") from None


def explain(model: type[BaseModel], error: ValidationError) -> str:
    """Return one line on the first wrong key: its value, what is allowed, and the number of further ones."""
    problems = error.errors()
    keys = [_key(model, problem["loc"]) for problem in problems]
    # A value that may be of several types fails once for each of them.
    first = [problem for problem, key in zip(problems, keys, strict=True) if key == keys[0]]
    more = len(set(keys)) - 1
    return _problem(model, keys[0], first) + (f" (and {more} more)" if more else "")


def unknown_key(model: type[BaseModel], key: Sequence[str]) -> str:
    """Return one line on a key that the model does not have: the nearest one, and all that are allowed."""
    *sections, name = key
    for section in sections:
        inner = _section(model, section)
        assert inner is not None, f"{section} has no keys"
        model = inner
    known = list(model.model_fields)
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"{_dotted(key)}: unknown key{hint} (allowed: {', '.join(known)})"


def check_known(model: type[BaseModel], section: str, name: str) -> None:
    """Refuse a section, or a key of it, that the model does not have."""
    inner = _section(model, section)
    if inner is None:
        raise InputError(unknown_key(model, [section]))
    if name not in inner.model_fields:
        raise InputError(unknown_key(model, [section, name]))


def _problem(model: type[BaseModel], key: Sequence[str], problems: Sequence[ErrorDetails]) -> str:
    """Explain the problems of one key."""
    first, dotted = problems[0], _dotted(key)
    if first["type"] == "extra_forbidden":
        return unknown_key(model, key)
    if first["type"] == "missing":
        return f"{dotted}: is missing; give it"
    if first["type"] == "value_error":
        # A check of the whole model has no key of its own, and names the keys in its message.
        message = first["msg"].removeprefix("Value error, ")
        return f"{dotted}: {message}" if dotted else message
    if first["type"] == "model_type":
        return f"{dotted}: {first['input']!r} is not allowed; it should be a section, [{dotted}]"
    # An error inside a list says more than that the list is not a single value, which is allowed too.
    deepest = max(problems, key=lambda problem: len(_positions(key, problem)))
    place = _positions(key, deepest)
    messages = [problem["msg"] for problem in problems if _positions(key, problem) == place]
    return f"{_dotted([*key, *place])}: {deepest['input']!r} is not allowed; {_allowed(messages)}"


def _allowed(messages: Sequence[str]) -> str:
    """Join pydantic's "Input should be ..." of all types that are allowed."""
    unique = list(dict.fromkeys(messages))
    for words in ("should be", "should"):
        ends = [message.partition(f" {words} ")[2] for message in unique]
        if all(ends):
            return f"it {words} {' or '.join(ends)}"
    return "; ".join(f"{message[0].lower()}{message[1:]}" for message in unique)


def _key(model: type[BaseModel], place: Sequence[int | str]) -> tuple[str, ...]:
    """Return sections and key; what pydantic adds about types and positions is left out."""
    found: list[str] = []
    section: type[BaseModel] | None = model
    for part in place:
        if section is None:
            break
        found.append(str(part))
        section = _section(section, str(part))
    return tuple(found)


def _positions(key: Sequence[str], problem: ErrorDetails) -> list[str]:
    """Return the positions in the key's list where the problem is."""
    return [str(part) for part in problem["loc"][len(key) :] if isinstance(part, int)]


def _section(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    """Return the model of the section with this name; None if there is none, or a single key."""
    field = model.model_fields.get(name)
    found = field.annotation if field else None
    return found if isinstance(found, type) and issubclass(found, BaseModel) else None


def _dotted(key: Sequence[str]) -> str:
    # A key in quotes may hold any character, also one that would break the line.
    return ".".join(part if part.isprintable() else repr(part) for part in key)
