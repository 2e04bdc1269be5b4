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


def fedsgt(*arguments: str, cwd: Path | None = None, given: str | None = None) -> Done:
    """Run the command's entry point in this process, since starting one for each call takes long."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    before, here, stdin = sys.argv, Path.cwd(), sys.stdin
    sys.argv = ["fedsgt", *arguments]
    if given is not None:
        sys.stdin = io.StringIO(given)
    try:
        os.chdir(cwd or here)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        sys.argv, sys.stdin = before, stdin
        os.chdir(here)
    return Done(code, out.getvalue(), err.getvalue())


def shown(*arguments: str) -> str:
    done = fedsgt(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout
