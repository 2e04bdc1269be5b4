"""The process that trains modules again (`fedsgt.proof.rebuild`), as seen by the one that starts it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias

from fedsgt.errors import InputError
from fedsgt.stack import profile

# -P: a file in the working directory must not stand in for a library.
COMMAND = (sys.executable, "-P", "-m", "fedsgt.proof.rebuild")
ERRORS = "errors.txt"
Verdict: TypeAlias = Literal["same", "different", "missing", "damaged", "not destroyed", "not comparable"]
Progress: TypeAlias = Callable[[float], None]
NotRebuilt: TypeAlias = dict[tuple[int, ...], tuple[Verdict, str]]
"""Verdict and reason, by groups, of modules that a rebuild does not train; () is the bare backbone."""
Rebuild: TypeAlias = Callable[[Path, int, Callable[[], None], Progress], NotRebuilt]
"""Trains the modules of a folder again, into it, in an order drawn by a seed; calls a check often."""


def run_rebuild(
    command: Sequence[str], path: Path, seed: int, check: Callable[[], None], progress: Progress
) -> NotRebuilt:
    """Run the command on a folder with a seed until it ends; call `check` at every line that it prints."""
    # The environment is this process's, but for the hash seed: an order of sets that shapes bytes must show.
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    told: list[dict[str, Any]] = []
    with (
        (path / ERRORS).open("wb") as errors,
        subprocess.Popen(
            (*command, str(path), str(seed)),
            stdin=subprocess.PIPE,  # never written to; the child ends when it is closed
            stdout=subprocess.PIPE,
            stderr=errors,
            env=surroundings | profile.environment(),
            start_new_session=True,  # Ctrl-C is for this process to deal with
        ) as child,
    ):
        try:
            for line in _lines(child):
                check()
                told.append(line)
                progress(line.get("share", 0.0))
            check()
        except BaseException:
            _end(child)
            raise
    if child.returncode:
        raise InputError(_failure(told, child.returncode, path))
    return not_rebuilt(told)


def not_rebuilt(told: Sequence[Mapping[str, Any]]) -> NotRebuilt:
    """Return the modules that a rebuild did not train, from the lines that it told."""
    return {tuple(line["groups"]): (line["verdict"], line["reason"]) for line in told if "groups" in line}


def _lines(child: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
    assert child.stdout is not None
    for line in child.stdout:
        with suppress(ValueError):  # libraries may print other lines
            told = json.loads(line)
            if isinstance(told, dict):
                yield told


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill the process with its workers, and wait until none of them can write another file."""
    assert child.stdout is not None
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.stdout.read()  # ends when the last process that holds the other end is gone


def _failure(told: Sequence[dict[str, Any]], code: int, path: Path) -> str:
    error = next((line["error"] for line in told if "error" in line), None)
    if error is not None:
        return str(error)
    lines = (path / ERRORS).read_text(encoding="utf-8", errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "-9 is often too little memory")
    return f"the process that trains modules again ended with exit code {code} ({last}); nothing was verified"
