"""Every name of Flower's beyond its public modules is there, has a reason, and is imported in one file."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import fedsgt

PUBLIC = ("flwr.app", "flwr.serverapp", "flwr.clientapp", "flwr.simulation")
PACKAGE = Path(fedsgt.__file__).parent
TESTS = Path(__file__).parents[2]
INTERNALS = PACKAGE / "engine" / "flower" / "internals.py"
# Names that only tests need, to play a node that Flower does not know.
OF_TESTS = TESTS / "helpers" / "flower_internals.py"


def imports(path: Path) -> Iterator[tuple[str, str, str]]:
    """Module, name and the comment right above, for every import of Flower in a file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "flwr":
            yield from ((node.module or "", alias.name, comment(lines, node.lineno)) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "", "") for alias in node.names if alias.name.split(".")[0] == "flwr")


def comment(lines: list[str], number: int) -> str:
    """The comment that ends on the line before this one."""
    found: list[str] = []
    for line in reversed(lines[: number - 1]):
        if not line.strip().startswith("#"):
            break
        found.insert(0, line.strip().removeprefix("#").strip())
    return " ".join(found)


def beyond_public(path: Path) -> list[tuple[str, str, str]]:
    return [entry for entry in imports(path) if entry[0] not in PUBLIC]


def broken(module: str, name: str, reason: str) -> str:
    """Return the message about a name that is gone; nothing if it is there."""
    try:
        if not hasattr(importlib.import_module(module), name):
            importlib.import_module(f"{module}.{name}")  # a module in a package that does not list it
    except ImportError:
        return f"Flower has no {module}.{name} any more. FedSGT needs it: {reason}"
    return ""


@pytest.mark.parametrize(
    ("module", "name", "reason"), [*beyond_public(INTERNALS), *beyond_public(OF_TESTS)], ids=str
)
def test_a_name_that_is_gone_is_named_with_the_reason_why_it_is_needed(
    module: str, name: str, reason: str
) -> None:
    assert len(reason) > 20, f"{module}.{name}: write above its import why it is needed"
    problem = broken(module, name, reason)
    assert not problem, problem


def test_a_missing_name_is_told() -> None:
    for module, name in (("flwr.supercore.run", "Ran"), ("flwr.supercore.runs", "Run")):
        assert broken(module, name, "a grid has one") == (
            f"Flower has no {module}.{name} any more. FedSGT needs it: a grid has one"
        )


def test_what_is_replaced_inside_flower_is_there() -> None:
    """Names that are set, not imported: without them, setting would do nothing and raise nothing."""
    simulation = importlib.import_module("flwr.simulation.run_simulation")
    assert callable(simulation.event), "reports to Flower's makers are called otherwise now; silence those"
    service = importlib.import_module("flwr.superlink.main")
    assert callable(service.create_app), "the SuperLink's application is made otherwise now; guard that one"


def test_no_other_file_imports_more_than_the_public_modules() -> None:
    for place in (PACKAGE, TESTS):
        for path in sorted(place.rglob("*.py")):
            if path not in (INTERNALS, OF_TESTS):
                assert beyond_public(path) == [], f"{path}: import these through {INTERNALS.name}"


@pytest.mark.parametrize("module", PUBLIC)
def test_public_modules_list_the_names_that_are_taken_from_them(module: str) -> None:
    listed = set(importlib.import_module(module).__all__)
    for place in (PACKAGE, TESTS):
        for path in sorted(place.rglob("*.py")):
            taken = {name for found, name, _ in imports(path) if found == module}
            assert taken <= listed, f"{path}: {module} does not list {sorted(taken - listed)} as public"
