"""A training process that kills itself at a chosen step, for tests of what is left on disk."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tiny_world import Quiet

from fedsgt.build.train import train
from fedsgt.config import load
from fedsgt.engine import worker
from fedsgt.engine.local_update import local_update

STEPS = {os: ("mkdir", "fsync", "replace", "rename", "unlink", "rmdir"), fcntl: ("flock",)}


def train_and_die(path: Path, config: Path, step: int | None, count: Path) -> None:
    """Trains; is gone, as by `kill -9`, at so many calls of the file system or clients' updates."""
    taken = [0]

    def counted(inner: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            taken[0] += 1
            if taken[0] == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return inner(*arguments, **options)

        return call

    for module, names in STEPS.items():
        for name in names:
            setattr(module, name, counted(getattr(module, name)))
    setattr(worker, "local_update", counted(local_update))  # noqa: B010
    train(load(config), path, Quiet())
    count.write_text(str(taken[0]))


def just_train(path: Path, config: Path) -> None:
    train(load(config), path, Quiet())
