"""An experiment's `config.toml`: which tasks, partitions and seeds, and what it varies."""

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
)


@dataclass(frozen=True)
class Settings:
    """What an experiment is to do."""

    name: str
    tasks: tuple[str, ...]
    partitions: tuple[str, ...]
    seeds: int
    own: dict[str, Any] = field(default_factory=dict)
    """What only this experiment knows."""
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
    """Of what the task's file says, without its comments."""
    values = tomllib.loads(task_file(task).read_text(encoding="utf-8"))
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def load_settings(name: str, quick: bool = False, tasks: Sequence[str] = ()) -> Settings:
    """Of `experiments/NAME/config.toml`; its section `quick` is put over the rest for a tiny run."""
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
