"""Compared systems: each is a label, and the settings that it puts over the common configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from fedsgt.api.train import AnyConfig, read_config
from fedsgt.config import SYSTEMS, Config
from fedsgt.errors import InputError

AnySystems: TypeAlias = Sequence[str | tuple[str, Sequence[str]]] | Mapping[str, Sequence[str]]
"""Names of systems, pairs of a label and settings, or a mapping from labels to settings."""

# A run's folder is called by the label, on any operating system.
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._+-]{0,59}")
SEEDS = ("data.seed", "grouping.seed", "training.seed")
# Runs of a comparison stand alone: they touch no file of the data's owners, no store or ledger that other
# runs use, and sign with no key of theirs.
ALONE = ("data.erase=tombstone", "store.url=", "unlearning.ledger=", "unlearning.key=")
# Systems may deal the same records to clients in another way: SISA and S3T give them all to one.
DEALING = {"clients", "partition", "alpha"}


@dataclass(frozen=True)
class ComparedSystem:
    """A system to compare."""

    label: str
    overrides: tuple[str, ...]


def read_systems(systems: AnySystems) -> tuple[list[ComparedSystem], list[str]]:
    """Return the systems, and all that is wrong with what was given."""
    found: list[ComparedSystem] = []
    mistakes: list[str] = []
    pairs = _pairs(systems)
    if not pairs:
        mistakes.append(f"systems: none is named; name some of {', '.join(SYSTEMS)}, or settings of your own")
    for label, settings in pairs:
        try:
            found.append(_system(label, settings))
        except InputError as error:
            mistakes.append(f"systems: {error}")
    labels = [system.label.lower() for system in found]  # some file systems take a and A for the same
    for label in sorted({label for label in labels if labels.count(label) > 1}):
        mistakes.append(f"systems: {label!r} stands there twice; give each a label of its own")
    return found, mistakes


def _pairs(systems: Any) -> list[tuple[Any, Any]]:
    if isinstance(systems, Mapping):
        return list(systems.items())
    entries = [systems] if isinstance(systems, str) else systems
    if not isinstance(entries, Sequence):
        return [(entries, ())]
    return [entry if isinstance(entry, tuple) and len(entry) == 2 else (entry, None) for entry in entries]


def _system(label: Any, settings: Any) -> ComparedSystem:
    """Return the system; its label alone is the name of a known one, whose settings come first."""
    if not isinstance(label, str) or (settings is None and label not in SYSTEMS):
        raise InputError(
            f"{label!r} is no system; one of {', '.join(SYSTEMS)}, or a label and a list of settings"
        )
    if not _LABEL.fullmatch(label):
        raise InputError(
            f"label {label!r} is not allowed; at most 60 letters, digits, blanks and ._+-, first a letter "
            "or a digit"
        )
    given = () if settings is None else settings
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(type(x) is str for x in given):
        raise InputError(f"{label}: {given!r} is no list of settings such as ['plan.kind=tree']")
    overrides = list(SYSTEMS[label].overrides) if label in SYSTEMS else []
    for entry in given:
        # A name without a value stands for all settings of that system.
        overrides += SYSTEMS[entry].overrides if entry in SYSTEMS else [entry]
    for entry in overrides:
        if entry.partition("=")[0].strip() in SEEDS:
            raise InputError(f"{label}: {entry} is not allowed; all systems have the seeds of seeds=")
    return ComparedSystem(label, tuple(overrides))


def config_for(
    config: AnyConfig, overrides: Sequence[str], system: ComparedSystem | None, seed: int
) -> Config:
    """Return the configuration of one run; without a system, the common one."""
    own = () if system is None else system.overrides
    seeds = [f"{key}={seed}" for key in SEEDS]
    return read_config(config, None, [*overrides, *own, *seeds, *ALONE])


def check_configs(
    config: AnyConfig, overrides: Sequence[str], systems: Sequence[ComparedSystem], seed: int
) -> list[str]:
    """Return all mistakes of the configurations of this seed, each once."""
    try:
        common = config_for(config, overrides, None, seed)
    except InputError as error:  # every system would tell the same again
        return list(error.mistakes or (str(error),))
    found = _remote_problem(common)
    for system in systems:
        try:
            found += _data_problems(common, config_for(config, overrides, system, seed), system.label)
        except InputError as error:
            found += [f"{system.label}: {mistake}" for mistake in error.mistakes or (str(error),)]
    return found


def _remote_problem(config: Config) -> list[str]:
    if config.data.partition != "remote":
        return []
    return ["data.partition is remote: systems are compared on records of this machine only"]


def _data_problems(common: Config, own: Config, label: str) -> list[str]:
    """Return the settings of the data in which a system differs, so that it would have other records."""
    theirs, ours = common.data.model_dump(exclude=DEALING), own.data.model_dump(exclude=DEALING)
    return [
        f"{label}: data.{key} is {ours[key]!r}, and {value!r} for the others; systems are compared on "
        "the same records"
        for key, value in theirs.items()
        if ours[key] != value
    ]
