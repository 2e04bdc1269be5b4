"""Settings of an experiment from its `config.toml`: tasks, partitions, seeds, and values to vary."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedsgt.errors import InputError

HERE = Path(__file__).parent.parent
NAMES = (
    "training",
    "unlearning",
    "theory",
    "cost",
    "budget",
    "slices",
    "selection",
    "peft",
    "grouping",
    "plans",
    "retraining",
    "forgetting",
    "beyond",
)


@dataclass(frozen=True)
class Settings:
    """Settings of an experiment."""

    name: str
    tasks: tuple[str, ...]
    partitions: tuple[str, ...]
    seeds: int
    own: dict[str, Any] = field(default_factory=dict)
    """Settings that only this experiment has."""
    quick: bool = False

    def __getitem__(self, key: str) -> Any:
        return self.own[key]


def task_file(task: str) -> Path:
    file = HERE / "tasks" / f"{task}.toml"
    if not file.is_file():
        tasks = HERE / "tasks"
        known = sorted(str(path.relative_to(tasks).with_suffix("")) for path in tasks.rglob("*.toml"))
        raise InputError(f"{task}: no such task; there are {', '.join(known) or 'none'}")
    return file


def task_hash(task: str) -> str:
    """Return the hash of the task's settings, which does not depend on comments in its file."""
    values = tomllib.loads(task_file(task).read_text(encoding="utf-8"))
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def load_settings(name: str, quick: bool = False, tasks: Sequence[str] = ()) -> Settings:
    """Read `experiments/NAME/config.toml`; with `quick`, its section `quick` makes a tiny run of it."""
    if name not in NAMES:
        raise InputError(f"{name}: no such experiment; one of {', '.join(NAMES)}")
    values = tomllib.loads((HERE / name / "config.toml").read_text(encoding="utf-8"))
    tiny = values.pop("quick", {})
    if quick:
        values |= tiny
    found = Settings(
        name,
        tuple(values.pop("tasks")),
        tuple(values.pop("partitions", ["iid"])),
        values.pop("seeds"),
        values,
        quick,
    )
    for task in tasks or found.tasks:
        task_file(task)
    return replace(found, tasks=tuple(tasks)) if tasks else found
