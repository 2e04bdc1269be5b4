"""Kill this process, as `kill -9` would, at a chosen call of the file system or of another thing."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

FILES = ("mkdir", "fsync", "replace", "rename", "unlink", "rmdir")


class KillAtStep:
    """Count the calls of chosen functions, and kill the process at the call of this number, if any."""

    def __init__(self, step: int | None) -> None:
        self.step, self.taken = step, 0

    def tick(self, *_: object) -> None:
        """Count one step."""
        self.taken += 1
        if self.taken == self.step:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self, place: Any, *names: str, after: bool = False) -> None:
        """Count each call of these functions as a step, and with `after` its return as another."""
        for name in names:
            setattr(place, name, self._counted(getattr(place, name), after))

    def _counted(self, inner: Callable[..., Any], after: bool) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self.tick()
            found = inner(*arguments, **options)
            if after:
                self.tick()
            return found

        return call

    def write_count(self, file: Path) -> None:
        """Write how many steps there were, for a test that kills at each of them."""
        file.write_text(str(self.taken))
