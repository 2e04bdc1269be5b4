"""Packages import in one direction only, and nothing before `stack` imports torch."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fedsgt

ROOT = Path(fedsgt.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
ROW = re.compile(r"\| `(\w+)` \| [^|]+ \| ([\w, ]+) \|")


def rooms_of_the_map() -> dict[str, set[str]]:
    """Return each room of the map in docs/architecture.md, in order, with the rooms that it imports."""
    rows = PAGE.read_text(encoding="utf-8").partition("## The rooms")[2].partition("\n## ")[0]
    return {room: set(named.split(", ")) - {"nothing"} for room, named in ROW.findall(rows)}


MAP = rooms_of_the_map()
ORDER = list(MAP)
FOR_ALL = ("errors", "window", "words", "__version__")
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


def test_the_map_has_every_package() -> None:
    assert set(packages()) == set(ORDER)


def test_the_map_points_one_way() -> None:
    for number, room in enumerate(ORDER):
        assert MAP[room] <= set(ORDER[:number]), f"{room} imports what stands below it"


@pytest.mark.parametrize("package", packages())
def test_a_package_imports_what_the_map_says(package: str) -> None:
    found = set()
    for _, name in imported(package):
        parts = name.split(".")
        if parts[0] == "fedsgt" and len(parts) > 1 and parts[1] not in (package, *FOR_ALL):
            found.add(parts[1])
    assert found == MAP[package]


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
