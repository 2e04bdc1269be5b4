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


class Screen(io.StringIO):
    """Standard output that a person looks at."""

    def isatty(self) -> bool:
        return True


def fedsgt(
    *arguments: str, cwd: Path | None = None, given: str | None = None, on_terminal: bool = False
) -> Done:
    """Run the command's entry point in this process, since starting one for each call takes long."""
    out, err, code = Screen() if on_terminal else io.StringIO(), io.StringIO(), 0
    before, here, stdin = sys.argv, Path.cwd(), sys.stdin
    sys.argv = ["fedsgt", *arguments]
    if given is not None:
        sys.stdin = io.TextIOWrapper(io.BytesIO(given.encode()), encoding="utf-8")
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
