"""Every test file is collected and lies where its module lies, and every module has a test file."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import fedsgt

ROOT = Path(__file__).parent.parent
TESTS = ROOT / "tests"
PACKAGE = Path(fedsgt.__file__).parent

# Folders without tests of their own, and those that test something outside the package.
NO_TESTS = {"helpers", "fixtures"}
OUTSIDE_THE_PACKAGE = {"attacks", "docs", "experiments"}

# Shorter modules hold a few names, and are tested with the modules that use them.
LINES_WITHOUT_A_TEST_FILE = 40


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
    """Return the module that `test_<module>[_<aspect>].py` names; with several, the longest name wins.

    A package that has code in its `__init__.py` is tested by the file of its name, beside its folder.
    """
    words = test_file.stem.removeprefix("test_").split("_")
    names = ("_".join(words[:count]) for count in range(len(words), 0, -1))
    room = PACKAGE / test_file.parent
    modules = (room / place for name in names for place in (f"{name}.py", f"{name}/__init__.py"))
    return next((path for path in modules if path.is_file()), None)


def lines_of_code(module: Path) -> int:
    """Return the number of lines on which a piece of code begins, without docstrings and comments."""
    nodes = list(ast.walk(ast.parse(module.read_text(encoding="utf-8"))))
    texts = {
        id(node.value)
        for node in nodes
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    code = (node for node in nodes if isinstance(node, ast.stmt | ast.expr) and id(node) not in texts)
    return len({node.lineno for node in code if not (isinstance(node, ast.Expr) and id(node.value) in texts)})


def modules_without_tests() -> set[str]:
    """Return the package's longer modules that no test file is named after."""
    rooms = (path.relative_to("tests") for path in files_with_tests())
    tested = {module_of(path) for path in rooms} | {PACKAGE / "__init__.py"}  # tests/test_public_interface.py
    longer = (path for path in PACKAGE.rglob("*.py") if lines_of_code(path) > LINES_WITHOUT_A_TEST_FILE)
    return {path.relative_to(PACKAGE).as_posix() for path in longer if path not in tested}


def test_every_test_file_contributes_a_test() -> None:
    """A new process, because what is collected here depends on the arguments of this run."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    collected = {Path(line.split("::")[0]) for line in answer.stdout.splitlines() if "::" in line}
    assert [str(path) for path in files_with_tests() if path not in collected] == []


def test_every_test_file_is_named_after_a_module() -> None:
    assert [str(path) for path in mirroring_files() if module_of(path) is None] == []


def test_every_longer_module_has_a_test_file() -> None:
    assert sorted(modules_without_tests()) == []
