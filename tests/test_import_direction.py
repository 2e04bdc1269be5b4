"""Packages import in one direction only, and nothing before `stack` imports torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fedsgt

ROOT = Path(fedsgt.__file__).parent

# In order: a package may import those before it, and errors.
ORDER = [
    "files",
    "config",
    "data",
    "grouping",
    "plans",
    "theory",
    "planning",
    "stack",
    "engine",
    "store",
    "ledger",
    "runs",
    "build",
    "serving",
    "certificates",
    "unlearning",
    "proof",
    "forgetting",
    "reporting",
    "federation",
    "api",
    "service",
    "cli",
]
# Narrower than the order: the only packages that each of these may import.
ONLY = {
    "files": set[str](),
    "config": {"files"},
    "data": {"files"},
    "grouping": set[str](),
    "plans": set[str](),
    "theory": {"plans"},
    "planning": {"plans", "theory"},
    "stack": {"files", "config"},
    "engine": {"files", "config", "data", "stack"},
    "store": {"files", "config", "data"},
    "ledger": {"files"},
}
FOR_ALL = ("errors", "words", "__version__")
FREE_OF_TORCH = ORDER[: ORDER.index("stack")]
HEAVY = {"torch", "transformers", "peft", "flwr"}


def packages() -> list[str]:
    return sorted(path.name for path in ROOT.iterdir() if (path / "__init__.py").is_file())


def imported(package: str) -> Iterator[tuple[Path, str]]:
    """Every module name that the package's files import, wherever in the file it stands."""
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from ((path, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}: relative import"
                yield path, node.module or ""
                if node.module == "fedsgt":
                    yield from ((path, f"fedsgt.{alias.name}") for alias in node.names)


def test_every_package_has_its_place_in_the_order() -> None:
    assert set(packages()) <= set(ORDER)


@pytest.mark.parametrize("package", packages())
def test_dependencies_point_one_way(package: str) -> None:
    allowed = ONLY.get(package, set(ORDER[: ORDER.index(package)])) | {package, *FOR_ALL}
    for path, name in imported(package):
        parts = name.split(".")
        if parts[0] == "fedsgt" and len(parts) > 1:
            assert parts[1] in allowed, f"{path} imports {name}"


@pytest.mark.parametrize("package", [name for name in packages() if name in FREE_OF_TORCH])
def test_nothing_above_the_stack_imports_torch(package: str) -> None:
    for path, name in imported(package):
        assert name.split(".")[0] not in HEAVY, f"{path} imports {name}"


def test_the_command_starts_without_torch() -> None:
    slow = ["torch", "transformers", "matplotlib", "jinja2"]
    code = f"import sys, fedsgt.cli; print(sorted(set({slow}) & set(sys.modules)))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )
