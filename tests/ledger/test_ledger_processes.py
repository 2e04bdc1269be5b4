"""Several processes on one ledger, and what is left of those that are killed; on both databases."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import PIPE

import pytest
from databases import execute, postgres_url

from fedsgt.ledger.kinds import Kind
from fedsgt.ledger.ledger import Ledger, LedgerError

# Each child imports all it needs, says so, and begins when it is told to.
START = """
import sys
from itertools import count
from fedsgt.ledger.kinds import Kind
from fedsgt.ledger.ledger import Ledger, LedgerError
url, name = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
"""
APPEND = """
with Ledger.open(url, "run") as ledger:
    for number in range(25):
        with ledger.writing() as writer:
            writer.append(Kind.REQUEST, {"by": name, "n": number}, key=f"{name} {number}")
print("done")
"""
CREATE = """
for run in ("same", "own " + name):
    try:
        Ledger.create(url, run, {"by": name}).close()
        print("made")
    except LedgerError as error:
        print(error)
"""
APPEND_WHEN_TOLD = """
with Ledger.open(url, "run") as ledger:
    for line in sys.stdin:
        with ledger.writing() as writer:
            writer.append(Kind.REQUEST, {})
        print("done", flush=True)
"""
HANG = """
with Ledger.open(url, "run") as ledger, ledger.writing() as writer:
    writer.append(Kind.REQUEST, {}, key="unfinished")
    print("appended", flush=True)
    sys.stdin.read()
"""
APPEND_FOR_EVER = """
with Ledger.open(url, "run") as ledger:
    for number in count():
        with ledger.writing() as writer:
            entry = writer.append(Kind.REQUEST, {"fill": "x" * 3000})
        print(entry.position, entry.hash, flush=True)
"""


@contextmanager
def child(script: str, url: str, name: str = "") -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", START + script, url, name], stdin=PIPE, stdout=PIPE, text=True
    )
    try:
        assert line_from(process) == "ready"
        yield process
    finally:
        process.kill()
        process.communicate()


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def line_from(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@contextmanager
def children(script: str, url: str, names: str) -> Iterator[list[subprocess.Popen[str]]]:
    """Start a child for each letter, all at once when all are ready."""
    if not names:
        yield []
        return
    with child(script, url, names[0]) as first, children(script, url, names[1:]) as rest:
        tell(first)
        yield [first, *rest]


def test_writers_at_once_leave_no_gap(ledger_url: str) -> None:
    with Ledger.create(ledger_url, "run", {}) as ledger:
        with children(APPEND, ledger_url, "abcd") as processes:
            assert [process.communicate()[0] for process in processes] == ["done\n"] * 4
        entries = ledger.entries()
        assert [entry.position for entry in entries] == list(range(1, 102))
        for name in "abcd":
            own = [entry.body["n"] for entry in entries[1:] if entry.body["by"] == name]
            assert own == list(range(25))
        assert [entry.time for entry in entries] == sorted(entry.time for entry in entries)


def test_ledgers_are_created_at_once(ledger_url: str) -> None:
    with children(CREATE, ledger_url, "abcd") as processes:
        lines = [process.communicate()[0].splitlines() for process in processes]
    assert [line[1] for line in lines] == ["made"] * 4
    same = sorted(line[0] for line in lines)
    assert same.count("made") == 1
    assert all("has entries of run same already" in line for line in same if line != "made")
    for run in ("same", *(f"own {name}" for name in "abcd")):
        with Ledger.open(ledger_url, run) as ledger:
            assert len(ledger.entries()) == 1


def test_what_another_process_commits_is_seen_at_once(ledger_url: str) -> None:
    with Ledger.create(ledger_url, "run", {}) as ledger, child(APPEND_WHEN_TOLD, ledger_url) as process:
        tell(process)
        for position in range(2, 12):
            tell(process)
            assert line_from(process) == "done"
            assert ledger.head() == position


def test_a_writer_that_is_killed_leaves_nothing_half_done(ledger_url: str) -> None:
    with Ledger.create(ledger_url, "run", {}) as ledger, child(HANG, ledger_url) as process:
        tell(process)
        assert line_from(process) == "appended"
        assert ledger.head() == 1
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        with ledger.writing() as writer:
            assert writer.find("unfinished") is None
            assert writer.append(Kind.REQUEST, {}, key="unfinished").position == 2
    with Ledger.open(ledger_url, "run") as fresh:
        assert len(fresh.entries()) == 2


def test_what_was_acknowledged_before_a_kill_is_there(ledger_url: str) -> None:
    Ledger.create(ledger_url, "run", {}).close()
    source, head = random.Random(0), 1
    for _ in range(4):
        with child(APPEND_FOR_EVER, ledger_url) as process:
            tell(process)
            acknowledged = [line_from(process) for _ in range(source.randrange(1, 40))]
            os.kill(process.pid, signal.SIGKILL)
            # Not communicate(), which would leave out what the last readline has read ahead.
            assert process.stdout is not None
            acknowledged += process.stdout.read().split("\n")[:-1]
        with Ledger.open(ledger_url, "run") as ledger:
            entries = ledger.entries(head)
            found = [f"{entry.position} {entry.hash}" for entry in entries]
            assert found[: len(acknowledged)] == acknowledged
            assert len(found) <= len(acknowledged) + 1
            head = ledger.head()


def test_a_server_that_was_away_is_found_again() -> None:
    def interrupted() -> None:
        with ledger.writing() as writer:
            writer.append(Kind.REQUEST, {})
            execute(url, end_all_connections)

    end_all_connections = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    )
    url = postgres_url()
    with Ledger.create(url, "run", {}) as ledger:
        execute(url, end_all_connections)
        assert ledger.head() == 1
        with pytest.raises(LedgerError, match="cannot write"):
            interrupted()
        assert ledger.head() == 1
        with ledger.writing() as writer:
            writer.append(Kind.REQUEST, {})
        assert len(ledger.entries()) == 2


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(LedgerError) as caught:
        Ledger.open("postgresql://someone:secret@127.0.0.1:1/x", "run")
    assert "cannot read ledger postgresql://someone:***@127.0.0.1:1/x" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_read_only_server_can_be_read() -> None:
    url = postgres_url()
    Ledger.create(url, "run", {}).close()
    with Ledger.open(f"{url}%20-cdefault_transaction_read_only%3Don", "run") as ledger:
        assert len(ledger.entries()) == ledger.head() == 1
        with pytest.raises(LedgerError, match="read-only"), ledger.writing() as writer:
            writer.append(Kind.REQUEST, {})
