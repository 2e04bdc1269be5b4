"""The `fedsgt` command, run inside the test's process."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from fedsgt.cli import main


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


def fedsgt(*arguments: str, cwd: Path | None = None) -> Done:
    """The command's own entry point, in this process: a new one for each call would take most of the time."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    before, here = sys.argv, Path.cwd()
    sys.argv = ["fedsgt", *arguments]
    try:
        os.chdir(cwd or here)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        sys.argv = before
        os.chdir(here)
    return Done(code, out.getvalue(), err.getvalue())


def shown(*arguments: str) -> str:
    done = fedsgt(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout
