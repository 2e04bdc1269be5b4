"""The command itself: how errors become one line and an exit code."""

from __future__ import annotations

import os
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


@pytest.mark.parametrize("errors_too", [False, True])
@pytest.mark.parametrize(
    "arguments", [("--help",), ("config", "show", "my.toml"), ("config", "show", "none")]
)
def test_a_reader_that_has_gone_is_no_error(
    arguments: tuple[str, ...], errors_too: bool, tmp_path: Path
) -> None:
    """As with `fedsgt ... | head -1`, and with `2>&1` before the bar."""
    fedsgt("init", "my.toml", cwd=tmp_path)
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "fedsgt", *arguments],
        cwd=tmp_path,
        stdout=write,
        stderr=write if errors_too else subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    if not errors_too:
        assert "Error" not in done.stderr
    wrong = arguments[-1] == "none"
    assert done.returncode == (2 if wrong and not errors_too else 141)


def test_the_command_takes_a_signal_from_its_first_line_on() -> None:
    """Python's own handler would show where the imports were."""
    code = (
        "import signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'fedsgt.cli':\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from fedsgt.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_error_of_the_program_itself_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line would keep from us where it happened."""
    with pytest.raises(ZeroDivisionError):
        failing(ZeroDivisionError(), monkeypatch)


def test_the_exit_code_survives_a_ctrl_c_in_generated_code(tmp_path: Path) -> None:
    """Python notes it there, and `python -m` would die of SIGINT at the end, whatever the exit code is."""
    (tmp_path / "generated.py").write_text(
        "import sys, fedsgt.cli\n"
        "def main():\n"
        "    try:\n"
        "        exec('raise KeyboardInterrupt')\n"
        "    except KeyboardInterrupt:\n"
        "        sys.exit(3)\n"
        "fedsgt.cli.main = main\n"
        "from fedsgt.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-m", "generated"], cwd=tmp_path, check=False)
    assert done.returncode == 3


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
