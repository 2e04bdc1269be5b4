"""A process that deletes and kills itself at a chosen step, for tests of what is left."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

from kill_at_step import FILES, KillAtStep
from sqlalchemy import event
from sqlalchemy.engine import Engine
from tiny_deletions import own_state

from fedsgt.runs.folder import open_run
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn


def delete_and_die(path: Path, client: str, records: tuple[str, ...], step: int | None, count: Path) -> None:
    """Delete; be killed before or after this many calls of the file system or the database."""
    # The server that forks this process was started with another environment.
    os.environ["FEDSGT_STATE"] = str(own_state(path))
    steps = KillAtStep(step)
    steps.watch(os, *FILES, "link", after=True)
    steps.watch(fcntl, "flock", after=True)
    steps.watch(shutil, "rmtree", after=True)
    for name in ("commit", "begin", "after_cursor_execute"):
        event.listen(Engine, name, steps.tick)
    unlearn(open_run(path), [Deletion(client, records=records)], key="the request")
    steps.write_count(count)
