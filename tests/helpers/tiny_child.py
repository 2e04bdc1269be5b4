"""A training process that kills itself at a chosen step, for tests of what is left on disk."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from kill_at_step import FILES, KillAtStep
from tiny_world import Quiet

from fedsgt.build.train import train
from fedsgt.config import load
from fedsgt.engine import worker


def train_and_die(path: Path, config: Path, step: int | None, count: Path) -> None:
    """Train; be killed at this many calls of the file system or of clients' updates."""
    steps = KillAtStep(step)
    steps.watch(os, *FILES)
    steps.watch(fcntl, "flock")
    steps.watch(worker, "local_update")
    train(load(config), path, Quiet())
    steps.write_count(count)


def just_train(path: Path, config: Path) -> None:
    """Train to the end."""
    train(load(config), path, Quiet())
