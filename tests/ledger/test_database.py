"""Troubles of a SQLite ledger's file: full disk, no permission, removed, not a database."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from databases import sqlite_url
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from fedsgt.ledger.kinds import Kind
from fedsgt.ledger.ledger import Ledger, LedgerError, file_url

LARGE = {"fill": "x" * 200_000}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.create(sqlite_url(tmp_path), "run", {}) as made:
        yield made


def check_works_again(ledger: Ledger, folder: Path) -> None:
    with ledger.writing() as writer:
        assert writer.append(Kind.REQUEST, LARGE, key="again").position == 2
    with Ledger.open(sqlite_url(folder), "run") as fresh:
        assert [entry.kind for entry in fresh.entries()] == ["opened", "request"]


@contextmanager
def page_limit(connection: Connection) -> Iterator[None]:
    connection.exec_driver_sql("PRAGMA max_page_count = 10")
    try:
        yield
    finally:
        connection.exec_driver_sql("PRAGMA max_page_count = 1000000")


def test_a_full_database(ledger: Ledger, tmp_path: Path) -> None:
    def fill() -> None:
        with ledger.writing() as writer, page_limit(writer._connection):
            writer.append(Kind.REQUEST, {"small": 1})
            with pytest.raises(LedgerError, match=r"disk is full; make room"):
                writer.append(Kind.REQUEST, LARGE)

    with pytest.raises(LedgerError, match="disk is full"):
        fill()
    assert ledger.head() == 1
    check_works_again(ledger, tmp_path)


def test_a_disk_that_takes_no_more_at_the_commit(ledger: Ledger, tmp_path: Path) -> None:
    def fill() -> None:
        with ledger.writing() as writer:
            writer.append(Kind.REQUEST, LARGE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(LedgerError, match=r"cannot write ledger .*make room") as caught:
            fill()
        assert ledger.head() == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "\n" not in str(caught.value)
    check_works_again(ledger, tmp_path)


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """Yield a folder that any user can enter."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@contextmanager
def as_ordinary_user() -> Iterator[None]:
    """No file is read-only for root."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


def make_read_only(folder: Path) -> None:
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)


def test_a_read_only_ledger_in_use_can_be_read(shared_folder: Path) -> None:
    url = sqlite_url(shared_folder)
    with Ledger.create(url, "run", {}) as ledger:
        make_read_only(shared_folder)
        with as_ordinary_user(), Ledger.open(url, "run") as other:
            assert len(other.entries()) == other.head() == 1
            with pytest.raises(LedgerError, match="read-only"), other.writing() as writer:
                writer.append(Kind.REQUEST, {})
        assert ledger.head() == 1


def test_a_folder_without_permission_is_named(shared_folder: Path) -> None:
    url = sqlite_url(shared_folder)
    Ledger.create(url, "run", {}).close()
    make_read_only(shared_folder)
    with as_ordinary_user():
        with pytest.raises(LedgerError, match=r"read-only for this user|may need to write"):
            Ledger.open(url, "run")
        with pytest.raises(LedgerError, match=r"cannot create ledger .*new\.db: unable to open"):
            Ledger.create(f"sqlite:///{shared_folder}/new.db", "run", {})


def test_the_new_files_name_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(handle: int) -> None:
        synced.append(os.fstat(handle).st_ino)
        real(handle)

    synced: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", fsync)
    Ledger.create(sqlite_url(tmp_path), "run", {}).close()
    assert tmp_path.stat().st_ino in synced


@pytest.mark.parametrize("content", [b"no database at all, but long enough " * 99, b"SQLite format 3\0", b""])
def test_a_file_that_is_no_ledger(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "ledger.db").write_bytes(content)
    with pytest.raises(LedgerError, match=r"not a database|no entries|malformed") as caught:
        Ledger.open(sqlite_url(tmp_path), "run")
    assert "\n" not in str(caught.value)
    assert (tmp_path / "ledger.db").read_bytes() == content


@pytest.mark.parametrize("part", [0.02, 0.3, 0.6, 0.95])
def test_a_truncated_file(ledger: Ledger, tmp_path: Path, part: float) -> None:
    with ledger.writing() as writer:
        for number in range(50):
            writer.append(Kind.REQUEST, {"n": number, "fill": "x" * 500})
    ledger.close()
    file = tmp_path / "ledger.db"
    os.truncate(file, int(file.stat().st_size * part))
    with (
        pytest.raises(LedgerError, match="restore") as caught,
        Ledger.open(sqlite_url(tmp_path), "run") as cut,
    ):
        cut.entries()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_ledger_that_is_taken_away_in_use(ledger: Ledger, tmp_path: Path, replaced: bool) -> None:
    file = tmp_path / "ledger.db"
    if replaced:
        shutil.copy(file, tmp_path / "copy")
        os.replace(tmp_path / "copy", file)
    else:
        file.unlink()
    for read in (ledger.head, ledger.entries):
        with pytest.raises(LedgerError, match="removed or replaced"):
            read()
    with pytest.raises(LedgerError, match="removed or replaced"), ledger.writing():
        pass
    ledger.close()
    with suppress(OperationalError):  # nor does a new connection make a file, if nothing stops it
        ledger._database.engine.connect().close()
    assert file.exists() == replaced


def test_creation_waits_for_others_who_have_the_file(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "ledger.db", check_same_thread=False)) as other:
        other.executescript("CREATE TABLE other (x); BEGIN IMMEDIATE;")
        with pytest.raises(LedgerError, match="another writer"):
            Ledger.create(sqlite_url(tmp_path), "run", {}, wait=0.05)
        release = threading.Timer(0.2, other.commit)
        release.start()
        Ledger.create(sqlite_url(tmp_path), "run", {}).close()
        release.join()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="its folder must be there"):
        Ledger.create(sqlite_url(tmp_path / "none"), "run", {})
    with pytest.raises(LedgerError, match="is missing"):
        Ledger.open(f"sqlite:///{tmp_path}", "run")


def test_odd_names_and_relative_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Ledger.create(file_url(tmp_path / "a b%41?c=d#ü.db"), "run", {}).close()
    monkeypatch.chdir(tmp_path)
    with Ledger.create("sqlite:///b", "run", {}) as ledger:
        monkeypatch.chdir("/")
        ledger.close()
        assert ledger.head() == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a b%41?c=d#ü.db", "b"]


def test_the_package_loads_without_the_database_library() -> None:
    code = "import sys, fedsgt.cli, fedsgt.store; print('sqlalchemy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
