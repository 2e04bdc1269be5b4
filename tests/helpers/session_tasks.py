"""Tasks for sessions in tests: a helper process finds them by name, so they must be in a module."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from fedsgt.engine.rounds import RefusedUpdate
from fedsgt.errors import InputError
from fedsgt.serving.predictor import Exhausted


def where(state: dict[str, Any], *, tell: Any) -> tuple[int, str | None]:
    """Return the process, and the mode of its maths library."""
    return os.getpid(), os.environ.get("MKL_CBWR")


def count(state: dict[str, Any], step: int, *, tell: Any) -> int:
    """Return a sum over all calls of the session; tell every step."""
    for number in range(step):
        tell(number)
    state["sum"] = state.get("sum", 0) + step
    return int(state["sum"])


def fail(state: dict[str, Any], kind: str, *, tell: Any) -> None:
    """Raise an error of this kind."""
    errors: dict[str, Exception] = {
        "input": InputError("wrong input"),
        "known": Exhausted("nothing is live"),
        "of several words": RefusedUpdate("client-7", "it is too large"),
        "bug": ZeroDivisionError("a bug"),
        "system": FileNotFoundError(2, "no such file", "here"),
    }
    raise errors[kind]


def die(state: dict[str, Any], *, tell: Any) -> None:
    """End the process at once."""
    os.kill(os.getpid(), signal.SIGKILL)


def sleep(state: dict[str, Any], *, tell: Any) -> None:
    """Say so, and do nothing for a long time."""
    tell(os.getpid())
    time.sleep(600)
