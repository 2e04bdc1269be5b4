"""The command itself: how errors become one line and an exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from command import Done, fedsgt, shown

from fedsgt.errors import InputError


def test_version_and_help() -> None:
    assert shown("--version").startswith("fedsgt ")
    assert "plan" in shown("--help")
    assert "--recommend" in shown("plan", "--help")


def failing(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> Done:
    """Run a command whose work fails in this way."""

    def fail(path: Path) -> None:
        raise error

    monkeypatch.setattr("fedsgt.runs.folder.open_run", fail)
    return fedsgt("show", "anything")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InputError("run.json: not whole"), 2, "fedsgt: run.json: not whole\n"),
        (OSError(28, "No space left on device", "/x/y"), 2, "fedsgt: /x/y: No space left on device\n"),
        (OSError(5, "Input/output error"), 2, "fedsgt: the system: Input/output error\n"),
        (MemoryError(), 2, "fedsgt: there is not enough memory for a setting of this size\n"),
    ],
)
def test_errors_that_a_person_can_do_something_about_are_one_line(
    error: BaseException, code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = failing(error, monkeypatch)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", said)


def test_ctrl_c_has_the_exit_code_of_shells(monkeypatch: pytest.MonkeyPatch) -> None:
    assert failing(KeyboardInterrupt(), monkeypatch).returncode == 130


def test_an_error_of_the_program_itself_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line would keep from us where it happened."""
    with pytest.raises(ZeroDivisionError):
        failing(ZeroDivisionError(), monkeypatch)


def test_wrong_words_name_the_help() -> None:
    done = fedsgt("unlern")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("fedsgt: No such command 'unlern'. Did you mean 'unlearn'?")
    assert done.stderr.endswith("fedsgt --help.\n")
    assert fedsgt("status").stderr.endswith("fedsgt status --help.\n")
    nothing = fedsgt()
    assert nothing.returncode == 2
    assert "Usage: " in nothing.stdout


def test_help_needs_neither_torch_nor_matplotlib() -> None:
    code = "import sys, fedsgt.cli\nprint({'torch', 'matplotlib', 'flwr', 'jinja2'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
