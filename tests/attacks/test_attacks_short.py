"""The campaigns of `make attack` in short: a case or two of each, in one process of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CASES = (
    "kills/sqlite/0",
    "kills/postgresql/0",
    "sources/0",
    "planted/0",
    "predictors/sqlite/0",
    "tampering/older-description",
    "tampering/older-folder",
    "tampering/key-corrupt",
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Run all of them at once: most of the time goes into loading torch."""
    file = tmp_path_factory.mktemp("attacks") / "counts.json"
    words = [sys.executable, "-m", "attacks", *CASES, "--kills", "6", "--json", str(file)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert file.exists(), done.stderr
    told = json.loads(file.read_text())
    assert done.returncode == int(any(one["broken"] for one in told["campaigns"]))
    return {one["campaign"]: one for one in told["campaigns"]}


@pytest.mark.parametrize("case", CASES)
def test_no_promise_is_broken(case: str, results: dict[str, dict[str, Any]]) -> None:
    found = results[case]
    assert found["cases"] >= 1
    assert found["counts"]["checks"] >= 5
    assert [f"{one['what']} ({one['repeat']})" for one in found["broken"]] == []


def test_operations_were_really_killed(results: dict[str, dict[str, Any]]) -> None:
    counts = [results[case]["counts"] for case in CASES if case.startswith("kills/")]
    assert all(count["kills"] for count in counts)
    assert all(count["runs settled"] for count in counts)
