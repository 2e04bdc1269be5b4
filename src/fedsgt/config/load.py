"""From a TOML file and dotted overrides to a run's configuration, and back."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import ValidationError

from fedsgt.config.model import Config
from fedsgt.config.toml import check_known, explain, read_toml
from fedsgt.errors import InputError


def load(path: Path | str | None = None, overrides: Iterable[str] = ()) -> Config:
    """Read the file, or take the defaults without one, and put each `section.key=value` over it.

    An override without a value (`section.key=`) removes the key, as if the file did not have it.
    """
    # Overrides go into the values, not into the model: all of it is validated together.
    values = {} if path is None else read_toml(Path(path))
    put = list(overrides)
    for override in put:
        _put(values, override)
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        # With overrides the mistake may be in one of these instead.
        where = "" if path is None or put else f"{path}: "
        raise InputError(where + explain(Config, error)) from None


def to_toml(config: Config) -> str:
    """Return the whole configuration as TOML, with the defaults; keys without a value are comments."""
    parts = []
    for section, values in config.model_dump(mode="json").items():
        # TOML has no null.
        given = {key: value for key, value in values.items() if value is not None}
        unset = [f"# {key} is not given\n" for key, value in values.items() if value is None]
        parts.append(f"[{section}]\n{tomli_w.dumps(given)}{''.join(unset)}")
    return "\n".join(parts)


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
        # Checked here, since a misspelt key would be removed without anybody noticing.
        check_known(Config, *keys)
        section.pop(keys[1], None)
        return
    try:
        section[keys[1]] = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        section[keys[1]] = text.strip()
