"""docs/python.md: its session runs, and every public name, method and field is in it."""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

import pytest
from documents import ROOT, blocks

import fedsgt
from fedsgt.api import results
from fedsgt.api.run import Run
from fedsgt.api.train import Training
from fedsgt.reporting.accuracy import AccuracyChange
from fedsgt.serving.accuracy import Accuracy
from fedsgt.stack import profile
from fedsgt.unlearning.recovery import Recovery
from fedsgt.unlearning.rejoin import Joined

PAGE = ROOT / "docs" / "python.md"
TEXT = PAGE.read_text(encoding="utf-8")
# Every result has these.
EVERYWHERE = {"to_json", "detail"}


@pytest.mark.slow
def test_the_session_of_the_page_runs(tmp_path: Path) -> None:
    """As a script of a reader, in a process without any setting of ours."""
    session = "\n".join(code for _, code in blocks("py", [PAGE]))
    clean = {name: value for name, value in os.environ.items() if name not in profile.environment()}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", session],
        cwd=tmp_path,
        env=clean,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert (tmp_path / "curves.png").exists()


def row_of(name: str) -> str:
    """Return the row of a table that begins with this name."""
    rows = TEXT.partition("## Results")[2].splitlines()
    found = [line for line in rows if line.startswith(f"| `{name}` |")]
    assert len(found) == 1, name
    return found[0]


def documented(text: str) -> set[str]:
    return {re.split(r"\W", name)[0] for name in re.findall(r"`(\w[^`]*)`", text)}


def public_members(kind: type) -> set[str]:
    """Return the public fields, properties and methods of a class itself, without ways to make one."""
    fields = {field.name for field in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set()
    own = {name: value for name, value in vars(kind).items() if not name.startswith("_")}
    return fields | {name for name, value in own.items() if not isinstance(value, classmethod)}


def modules(package: ModuleType) -> Iterator[ModuleType]:
    for found in iter_modules(package.__path__):
        yield import_module(f"{package.__name__}.{found.name}")


def result_types() -> list[type]:
    """Return the classes of all results: those of `fedsgt.api.results`, and some of the rooms below."""
    found = {
        kind
        for module in modules(results)
        for _, kind in inspect.getmembers(module, dataclasses.is_dataclass)
        if isinstance(kind, type) and kind.__module__ == module.__name__
    }
    return sorted(
        {*found, Accuracy, AccuracyChange, Joined, Recovery, Training}, key=lambda kind: kind.__name__
    )


@pytest.mark.parametrize("name", fedsgt.__all__)
def test_every_public_name_is_documented(name: str) -> None:
    assert f"| `{name}` |" in TEXT.partition("## Training")[0]


def test_every_method_of_a_run_is_documented_with_its_arguments() -> None:
    table = TEXT.partition("| of a `Run` |")[2].partition("\n\n")[0]
    attributes = {"folder", "training"}
    assert documented(table) >= public_members(Run) | attributes
    for name, method in inspect.getmembers(Run, inspect.isfunction):
        if name.startswith("_"):
            continue
        (call,) = re.findall(rf"\| `{name}\(([^`]*)\)` \|", table)
        wanted = [one for one in inspect.signature(method).parameters if one not in ("self", "progress")]
        assert [one for one in call.split(", ") if one not in ("", "progress")] == wanted, name


@pytest.mark.parametrize("name", ["train", "compare"])
def test_every_argument_is_documented(name: str) -> None:
    parameters = inspect.signature(getattr(fedsgt, name)).parameters
    (call,) = re.findall(rf"`{name}\((config[^`]*)\)`", TEXT)
    assert [one for one in call.split(", ") if one != "*"] == list(parameters)


@pytest.mark.parametrize("kind", result_types(), ids=lambda kind: kind.__name__)
def test_every_field_of_a_result_is_documented(kind: type) -> None:
    row = row_of(kind.__name__)
    missing = public_members(kind) - EVERYWHERE - documented(row)
    assert missing == set()
    # And nothing that is not there.
    extra = documented(row.partition(" | ")[2]) - public_members(kind)
    assert extra <= {known.__name__ for known in result_types()}
