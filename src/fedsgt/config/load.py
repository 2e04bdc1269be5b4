"""From a TOML file and dotted overrides to a run's configuration, and back."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import ValidationError

from fedsgt.config.model import Config
from fedsgt.config.toml import cannot_be_unset, explain, read_toml, wrong_keys
from fedsgt.errors import InputError


def load(path: Path | str | Mapping[str, Any] | None = None, overrides: Iterable[str] = ()) -> Config:
    """Read the file, or take the defaults without one, and put each `section.key=value` over it.

    Sections may also come as a mapping of mappings.

    An override without a value (`section.key=`) removes a key that need not be given.
    """
    # Overrides go into the values, not into the model: all of it is validated together.
    if isinstance(path, Mapping):
        values, path = deepcopy(dict(path)), None
    elif path is None:
        values = {}
    else:
        values = read_toml(Path(path), f"; fedsgt init {shlex.quote(str(path))} writes a starter")
    put = list(overrides)
    mistakes = [mistake for override in put if (mistake := _put(values, override)) is not None]
    mistakes = list(dict.fromkeys([*mistakes, *_mistakes(values)]))  # an unknown section is noticed twice
    where = "" if path is None else str(path)
    if mistakes:
        # With overrides the mistake may be in one of these instead.
        raise WrongSettings.found(values, f"{where} with overrides" if where and put else where, mistakes)
    return Config.model_validate(values)


class WrongSettings(InputError):
    """Settings are wrong. Those that are right can be looked at further, so that all mistakes are told."""

    found_in: str = ""
    """File that the settings are from."""
    all_mistakes: tuple[str, ...] = ()
    rest: Config | None = None
    """Configuration of the settings that are right, with defaults in place of the others."""
    wrong: frozenset[str] = frozenset()
    """Sections that hold a mistake."""

    @classmethod
    def found(cls, values: dict[str, Any], where: str, mistakes: Sequence[str]) -> WrongSettings:
        """Return the error of these mistakes."""
        # With overrides a single mistake may be in one of them, so that the file is not named.
        error = cls.of("" if len(mistakes) == 1 and where.endswith("overrides") else where, mistakes)
        error.found_in, error.all_mistakes = where, tuple(mistakes)
        keys = {tuple(mistake.partition(":")[0].split(".")) for mistake in mistakes}
        error.wrong = frozenset(key[0] for key in keys)
        with suppress(ValidationError):
            right = {section: held for section, held in values.items() if section not in error.wrong}
            error.rest = Config.model_validate(right, context={"wrong": {(name,) for name in error.wrong}})
        return error

    def with_more(self, mistakes: Iterable[str]) -> InputError:
        """Return one error of these mistakes and of further ones."""
        more = list(mistakes)
        return InputError.of(self.found_in, [*self.all_mistakes, *more]) if more else self


def from_values(values: dict[str, Any], where: str = "") -> Config:
    """Return the configuration with these values; raise one error that tells all mistakes."""
    mistakes = _mistakes(values)
    if mistakes:
        raise InputError.of(where, mistakes)
    return Config.model_validate(values)


def _mistakes(values: dict[str, Any]) -> list[str]:
    try:
        Config.model_validate(values)
    except ValidationError as error:
        return explain(Config, error) + _contradictions(values, wrong_keys(Config, error))
    return []


def _contradictions(values: dict[str, Any], wrong: set[tuple[str, ...]]) -> list[str]:
    """Return what is wrong between settings that are right in themselves."""
    if () in wrong:  # they were all right, and have been compared
        return []
    right = {
        section: {key: value for key, value in held.items() if (section, key) not in wrong}
        for section, held in values.items()
        if (section,) not in wrong
    }
    try:
        Config.model_validate(right, context={"wrong": wrong})
    except ValidationError as error:
        return explain(Config, error)
    return []


def to_toml(config: Config, given: bool = False) -> str:
    """Return the configuration as TOML; keys without a value are comments.

    All of it, with the defaults, or only the keys that were `given`.
    """
    parts = []
    for section, values in config.model_dump(mode="json", exclude_unset=given).items():
        # TOML has no null.
        said = {key: value for key, value in values.items() if value is not None}
        unset = [f"# {key} is not given\n" for key, value in values.items() if value is None]
        parts.append(f"[{section}]\n{tomli_w.dumps(said)}{''.join(unset)}")
    return "\n".join(parts)


def _put(values: dict[str, Any], override: str) -> str | None:
    """Set one dotted key, or return what is wrong with the override.

    A value that is not TOML is taken as text, so that no quotes are needed.
    """
    dotted, equals, text = override.partition("=")
    keys = dotted.strip().split(".")
    if not equals or len(keys) != 2 or not all(keys):
        return f"{override!r}: not an override; write section.key=value, such as plan.budget=8"
    section = values.setdefault(keys[0], {})
    if not isinstance(section, dict):
        return None  # told by the check of all values
    if text.strip():
        try:
            section[keys[1]] = tomllib.loads(f"value = {text}")["value"]
        except (ValueError, RecursionError):
            section[keys[1]] = text.strip()
        return None
    # Checked here, since a misspelt key would be removed without anybody noticing.
    problem = cannot_be_unset(Config, *keys)
    if problem is None:
        section.pop(keys[1], None)
    return problem
