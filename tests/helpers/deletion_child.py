"""A process that deletes and kills itself at a chosen step, for tests of what is left."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

from fedsgt.runs.folder import open_run
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn

STEPS = {
    os: ("mkdir", "fsync", "replace", "rename", "unlink", "rmdir", "link"),
    fcntl: ("flock",),
    shutil: ("rmtree",),
}


def delete_and_die(path: Path, client: str, records: tuple[str, ...], step: int | None, count: Path) -> None:
    """Deletes; is gone, as by `kill -9`, at so many calls of the file system or the database."""
    taken = [0]

    def tick() -> None:
        taken[0] += 1
        if taken[0] == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(inner: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            tick()
            found = inner(*arguments, **options)
            tick()
            return found

        return call

    for module, names in STEPS.items():
        for name in names:
            setattr(module, name, counted(getattr(module, name)))
    for name in ("commit", "begin", "after_cursor_execute"):
        event.listen(Engine, name, lambda *_: tick())
    unlearn(open_run(path), [Deletion(client, records=records)], key="the request")
    count.write_text(str(taken[0]))
