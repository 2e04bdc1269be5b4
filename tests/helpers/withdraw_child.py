"""A process that withdraws and kills itself at a chosen step, for tests of what is left."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from fedsgt.federation.client.withdraw import withdraw
from fedsgt.federation.settings import load_client
from fedsgt.unlearning.request import Deletion

STEPS: dict[Any, tuple[str, ...]] = {
    os: ("mkdir", "fsync", "replace", "rename", "unlink", "rmdir"),
    httpx.Client: ("post",),
}


def withdraw_and_die(client: Path, record: str, step: int | None, count: Path) -> None:
    """Is gone, as by `kill -9`, before or after so many calls of the file system or the network."""
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

    for place, names in STEPS.items():
        for name in names:
            setattr(place, name, counted(getattr(place, name)))
    withdraw(load_client(client), Deletion("a", records=(record,)))
    count.write_text(str(taken[0]))
