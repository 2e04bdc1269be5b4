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
from fedsgt.words import one_line

LONGEST_VALUE = 100
"""Most characters that are shown of a wrong value."""
PLAIN_WORDS = {
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid string": "a text",
    "a valid list": "a list",
    "a valid boolean": "true or false",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "greater than": "above",
    "less than": "below",
}
"""pydantic's words, and those that people use."""


def read_toml(path: Path, if_missing: str = "") -> dict[str, Any]:
    """Return the values of the file; `if_missing` is added to the message if there is no such file."""
    try:
        # Some editors put a byte order mark at the start, which is no TOML.
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file{if_missing}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: cannot be read (it is not text in UTF-8)") from None
    except RecursionError:
        raise InputError(f"{path}: not TOML: nested too deeply") from None
    except ValueError as error:  # also a date that does not exist, or a number of too many digits
        raise InputError(f"{path}: not TOML: {one_line(error)}") from None


def explain(model: type[BaseModel], error: ValidationError) -> list[str]:
    """Return a line for each wrong key: its value, and what is allowed."""
    problems: dict[tuple[str, ...], list[ErrorDetails]] = {}
    for problem in error.errors():
        # A value that may be of several types fails once for each of them.
        problems.setdefault(_key(model, problem["loc"]), []).append(problem)
    return [line for key, found in problems.items() for line in _problem(model, key, found)]


def wrong_keys(model: type[BaseModel], error: ValidationError) -> set[tuple[str, ...]]:
    """Return sections and key of everything that is wrong, and the keys that misspelt ones may stand for."""
    found = {_key(model, problem["loc"]) for problem in error.errors()}
    meant = {(*key[:-1], close) for key in found if key and (close := _meant(model, key)) is not None}
    return found | meant


def unknown_key(model: type[BaseModel], key: Sequence[str]) -> str:
    """Return one line on a key that the model does not have: the nearest one, and all that are allowed."""
    close = _meant(model, key)
    known = _holder(model, key).model_fields
    homes = [name for name in known if key[-1] in getattr(_section(model, name), "model_fields", ())]
    hint = f"; did you mean {close}?" if close else f"; it belongs into [{homes[0]}]" if homes else ""
    return f"{_dotted(key)}: unknown key{hint} (allowed: {', '.join(known)})"


def _meant(model: type[BaseModel], key: Sequence[str]) -> str | None:
    """Return the known key nearest to an unknown one; None if there is none, or if the key is known."""
    known = _holder(model, key).model_fields
    close = difflib.get_close_matches(key[-1], list(known), n=1)
    return close[0] if close and key[-1] not in known else None


def _holder(model: type[BaseModel], key: Sequence[str]) -> type[BaseModel]:
    """Return the model that has, or should have, the last part of the key."""
    for section in key[:-1]:
        inner = _section(model, section)
        assert inner is not None, f"{section} has no keys"
        model = inner
    return model


def cannot_be_unset(model: type[BaseModel], section: str, name: str) -> str | None:
    """Return why this key cannot be without a value: it is unknown, or has a default; None if it can."""
    inner = _section(model, section)
    if inner is None:
        return unknown_key(model, [section])
    if name not in inner.model_fields:
        return unknown_key(model, [section, name])
    # A shell makes an empty text of "": whoever writes that does not ask for a default.
    default = inner.model_fields[name].default
    if default is None:
        return None
    return (
        f"{section}.{name}: no value is given; give one, or leave it out for the default, {_shown(default)}"
    )


def _problem(model: type[BaseModel], key: Sequence[str], problems: Sequence[ErrorDetails]) -> list[str]:
    """Explain the problems of one key in a line; a check of the whole model has a line for each problem."""
    first, dotted = problems[0], _dotted(key)
    if first["type"] == "value_error":
        # A check of the whole model has no key of its own, and names the keys in its message.
        message = first["msg"].removeprefix("Value error, ")
        return [f"{dotted}: {message}"] if dotted else message.split("\n")
    if first["type"] == "extra_forbidden":
        return [unknown_key(model, key)]
    if first["type"] == "missing":
        return [f"{dotted}: is missing; give it"]
    if first["type"] == "model_type":
        return [f"{dotted}: {_shown(first['input'])} is not allowed; it should be a section, [{dotted}]"]
    # An error inside a list says more than that the list is not a single value, which is allowed too.
    deepest = max(problems, key=lambda problem: len(_positions(key, problem)))
    place = _positions(key, deepest)
    about = _holder(model, key).model_fields[key[-1]].description if not place else None
    if about and deepest["type"] == "string_too_short" and not deepest["input"]:
        return [f"{dotted}: is empty; give one: {about.replace('`', '')}"]
    if about and deepest["type"] == "string_pattern_mismatch":
        allowed = f"allowed: {about.replace('`', '')}"
    else:
        allowed = _allowed([problem["msg"] for problem in problems if _positions(key, problem) == place])
    return [f"{_dotted([*key, *place])}: {_shown(deepest['input'])} is not allowed; {allowed}"]


def _shown(value: Any) -> str:
    """Return a value of the file; of a long one, the beginning."""
    text = repr(value) if not isinstance(value, bool) else str(value).lower()  # as TOML writes it
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."


def _allowed(messages: Sequence[str]) -> str:
    """Join pydantic's "Input should be ..." of all types that are allowed, in plainer words."""
    unique = list(dict.fromkeys(messages))
    for words, plain in PLAIN_WORDS.items():
        unique = [message.replace(words, plain) for message in unique]
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
