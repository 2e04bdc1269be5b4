"""Every test file is collected, and lies where its module lies in the package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import fedsgt

ROOT = Path(__file__).parent.parent
TESTS = ROOT / "tests"
PACKAGE = Path(fedsgt.__file__).parent

# Folders without tests of their own, and those that test something outside the package.
NO_TESTS = {"helpers", "fixtures"}
OUTSIDE_THE_PACKAGE = {"docs", "experiments"}


def files_with_tests() -> list[Path]:
    """Return every Python file that should hold tests, whether or not pytest would look at its name."""
    return sorted(
        path.relative_to(ROOT)
        for path in TESTS.rglob("*.py")
        if path.relative_to(TESTS).parts[0] not in NO_TESTS and path.name != "conftest.py"
    )


def mirroring_files() -> list[Path]:
    """Return the test files of the package's rooms; those directly in `tests/` are about the whole."""
    rooms = (path.relative_to("tests") for path in files_with_tests())
    return [path for path in rooms if len(path.parts) > 1 and path.parts[0] not in OUTSIDE_THE_PACKAGE]


def module_of(test_file: Path) -> Path | None:
    """Return the module that `test_<module>[_<aspect>].py` names; with several, the longest name wins."""
    words = test_file.stem.removeprefix("test_").split("_")
    names = ("_".join(words[:count]) for count in range(len(words), 0, -1))
    modules = (PACKAGE / test_file.parent / f"{name}.py" for name in names)
    return next((path for path in modules if path.is_file()), None)


def test_every_test_file_contributes_a_test() -> None:
    """A new process, because what is collected here depends on the arguments of this run."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    collected = {Path(line.split("::")[0]) for line in answer.stdout.splitlines() if "::" in line}
    assert [str(path) for path in files_with_tests() if path not in collected] == []


def test_every_test_file_is_named_after_a_module() -> None:
    assert [str(path) for path in mirroring_files() if module_of(path) is None] == []
