"""The public names of `fedsgt`: complete, typed, documented, and free until they are used."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import subprocess
import sys
import typing
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import fedsgt
from fedsgt.api.run import Run

SLOW = ("numpy", "torch", "pydantic", "pandas", "matplotlib", "scipy", "transformers", "sqlalchemy", "rich")
RESULTS = sorted(
    path.stem
    for path in Path(str(files("fedsgt.api.results"))).glob("*.py")
    if path.stem not in ("__init__", "shown")
)


def test_all_is_sorted_and_names_every_public_thing() -> None:
    assert fedsgt.__all__ == sorted(fedsgt.__all__)
    assert set(fedsgt.__all__) == set(fedsgt._PLACES)
    # What the module's type checker sees is what there is when it runs.
    source = Path(fedsgt.__file__).read_text(encoding="utf-8")
    block = source.partition("if TYPE_CHECKING:\n")[2].partition("\n__version__")[0]
    imported = {
        name.strip() for line in block.splitlines() for name in line.partition("import ")[2].split(",")
    }
    assert imported - {""} == set(fedsgt.__all__)


@pytest.mark.parametrize("name", fedsgt.__all__)
def test_every_name_resolves_and_says_what_it_is(name: str) -> None:
    found = getattr(fedsgt, name)
    assert found.__name__ == name
    assert inspect.getdoc(found)
    assert name in dir(fedsgt)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        fedsgt.trian  # type: ignore[attr-defined]  # noqa: B018


def test_the_import_is_free() -> None:
    """In a process of its own: here everything is imported already."""
    code = f"import sys, fedsgt; print(sorted(set({SLOW}) & set(sys.modules)), len(fedsgt.__all__))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"[] {len(fedsgt.__all__)}\n"


@pytest.mark.parametrize("name", ["InputError", "AlreadyDeleted", "KeyUsed", "OutcomeUnknown", "Exhausted"])
def test_errors_are_of_one_family(name: str) -> None:
    assert issubclass(getattr(fedsgt, name), fedsgt.InputError)


def test_types_are_shipped() -> None:
    assert (files("fedsgt") / "py.typed").is_file()


def classes() -> list[type]:
    """Return `Run` and the classes of all results."""
    found: list[type] = [Run]
    for stem in RESULTS:
        module = importlib.import_module(f"fedsgt.api.results.{stem}")
        found += [
            kind
            for _, kind in inspect.getmembers(module, inspect.isclass)
            if kind.__module__ == module.__name__ and dataclasses.is_dataclass(kind)
        ]
    return found


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties that the class itself has, as functions."""
    for name, value in vars(kind).items():
        if name.startswith("_"):
            continue
        if isinstance(value, property):
            yield name, value.fget
        elif inspect.isfunction(value):
            yield name, value
        elif isinstance(value, classmethod):
            yield name, value.__func__


@pytest.mark.parametrize("kind", classes(), ids=lambda kind: kind.__name__)
def test_everything_public_has_a_docstring_and_types(kind: type) -> None:
    assert inspect.getdoc(kind)
    for name, function in members(kind):
        assert function.__doc__, f"{kind.__name__}.{name}"
        annotations = function.__annotations__
        assert "return" in annotations, f"{kind.__name__}.{name}"
        wanted = list(inspect.signature(function).parameters)[1:]
        assert set(wanted) <= set(annotations), f"{kind.__name__}.{name}"


@pytest.mark.parametrize("name", ["train", "open_run", "compare"])
def test_annotations_resolve(name: str) -> None:
    function = getattr(fedsgt, name)
    found = typing.get_type_hints(function, localns=only_for_types(function))
    assert found["return"] in (Run, fedsgt.Comparison)


def test_annotations_of_a_run_resolve() -> None:
    for name, function in members(Run):
        assert "return" in typing.get_type_hints(function, localns=only_for_types(function)), name


def only_for_types(function: Any) -> dict[str, Any]:
    """Return what the function's module imports for type checkers only, so that importing it stays cheap."""
    module = inspect.getmodule(function)
    assert module is not None
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            found: dict[str, Any] = {}
            exec(ast.unparse(ast.Module(node.body, [])), found)
            return found
    return {}
