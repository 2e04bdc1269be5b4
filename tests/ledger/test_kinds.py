from __future__ import annotations

import ast
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import fedsgt
from fedsgt.ledger.kinds import MODULES_CHANGED, RECORDS_MOVED, SERVING_CHANGED, Kind
from fedsgt.ledger.ledger import Ledger, file_url

ROOT = Path(fedsgt.__file__).parent
# Words are the same where a number is said to a person: "3 requests".
COUNTING = {"counted", "_some"}


def test_the_values_are_the_texts_of_ledgers_made_before() -> None:
    assert {kind.name: kind.value for kind in Kind} == {
        "OPENED": "opened",
        "REQUEST": "request",
        "CONDEMNED": "condemned",
        "DESTROYED": "destroyed",
        "REBUILT": "rebuilt",
        "BUILT": "built",
        "STATISTICS": "new-statistics",
        "KEY": "signing-key",
        "COPIED": "copied",
        "RESTORED": "restored",
    }


def test_a_ledger_made_before_has_no_other_kinds() -> None:
    file = Path(__file__).parents[1] / "fixtures" / "run-0.1.0" / "ledger.sqlite"
    with sqlite3.connect(f"file:{file}?mode=ro&immutable=1", uri=True) as connection:
        kinds = {kind for (kind,) in connection.execute("SELECT DISTINCT kind FROM fedsgt_ledger")}
    assert kinds <= set(Kind), kinds
    assert {Kind.OPENED, Kind.BUILT} <= kinds


def test_entries_and_rows_hold_plain_texts(tmp_path: Path) -> None:
    with Ledger.create(file_url(tmp_path / "ledger.db"), "run", {}) as ledger, ledger.writing() as writer:
        entry = writer.append(Kind.REQUEST, {})
    assert type(entry.kind) is str
    assert entry.kind == "request"


def test_the_sets_do_not_mean_the_same() -> None:
    assert MODULES_CHANGED | {Kind.REQUEST, Kind.STATISTICS} == SERVING_CHANGED
    assert {Kind.REBUILT} == RECORDS_MOVED & MODULES_CHANGED


def literals(tree: ast.AST) -> Iterator[ast.Constant]:
    """Every text of a kind that is compared, passed or given a name; keys of JSON objects are no kinds."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            inside = [] if name in COUNTING else [*node.args, *(word.value for word in node.keywords)]
        elif isinstance(node, ast.Compare):
            inside = [node.left, *node.comparators]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            inside = [node.value] if node.value else []
        elif isinstance(node, ast.Tuple | ast.Set):
            inside = node.elts
        else:
            inside = []
        for part in inside:
            if isinstance(part, ast.Constant) and part.value in list(Kind):
                yield part


# Files in which the word "request" is also a heading for people; other kinds are looked for there too.
HEADINGS = {"api/results/comparison.py", "cli/views/status.py", "reporting/charts.py"}


def test_no_other_file_spells_a_kind() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted(ROOT.rglob("*.py"))
        if path != ROOT / "ledger" / "kinds.py"
        for node in literals(ast.parse(path.read_text(encoding="utf-8")))
        if node.value != "request" or path.relative_to(ROOT).as_posix() not in HEADINGS
    ]
    assert not found, "write a member of fedsgt.ledger.kinds.Kind"


@pytest.mark.parametrize(
    "line",
    [
        'entry.kind == "built"',
        'writer.append("request", body)',
        'Entry(1, "request", "", body, "", "")',
        'BUILT = "built"',
        'CHANGES = ("rebuilt", "built")',
        'entry.kind in {"rebuilt", BUILT}',
        'find(kind="condemned")',
    ],
)
def test_a_spelt_kind_is_found(line: str) -> None:
    assert list(literals(ast.parse(line)))


@pytest.mark.parametrize("line", ['entry.body["request"]', '{"request": 3}', 'counted(3, "request")'])
def test_other_uses_of_the_words_are_fine(line: str) -> None:
    assert not list(literals(ast.parse(line)))
