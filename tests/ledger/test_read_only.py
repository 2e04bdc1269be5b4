"""A ledger that this user can only read: every entry is seen, also in the WAL file, and none is written."""

from __future__ import annotations

import gc
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from databases import sqlite_url, tamper

from fedsgt.ledger import database, read_only
from fedsgt.ledger.kinds import Kind
from fedsgt.ledger.ledger import CorruptLedger, Ledger, LedgerError

RUN = "run"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


@pytest.fixture
def url(tmp_path: Path) -> str:
    folder = tmp_path / "run"
    folder.mkdir()
    return sqlite_url(folder)


@pytest.fixture
def writer(url: str) -> Iterator[Ledger]:
    with Ledger.create(url, RUN, {}) as ledger:
        yield ledger


def reader(url: str, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """Open a ledger as a user who may not write it; the superuser's tests cannot take the right away."""
    with monkeypatch.context() as patch:
        patch.setattr(database, "can_be_written", lambda file: False)
        return Ledger.open(url, RUN)


def append(ledger: Ledger, kind: Kind = Kind.BUILT) -> None:
    with ledger.writing() as writer:
        writer.append(kind, {"modules": 1})


def test_entries_in_the_wal_file_are_seen_at_once(
    url: str, writer: Ledger, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(writer)
    file = Path(url.removeprefix("sqlite:///"))
    before = file.read_bytes()
    found = reader(url, monkeypatch)
    assert found.head() == 2
    for position in range(3, 6):
        append(writer)
        assert found.head() == position
    assert [entry.position for entry in found.entries()] == [1, 2, 3, 4, 5]
    assert file.read_bytes() == before, "all of it is in the WAL file"
    writer.close()
    assert not file.with_name("ledger.db-wal").exists()
    assert found.head() == 5


def test_the_ledger_is_copied_again_only_when_it_changed(
    url: str, writer: Ledger, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = reader(url, monkeypatch)
    (first,) = temporary.iterdir()
    assert first.stat().st_mode & 0o777 == 0o700
    found.head(), found.entries()
    assert list(temporary.iterdir()) == [first]
    append(writer)
    found.head()
    (second,) = temporary.iterdir()
    assert second != first


def test_the_copy_goes_with_the_ledger(
    url: str, writer: Ledger, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = reader(url, monkeypatch)
    found.close()
    assert list(temporary.iterdir()) == []
    assert found.head() == 1, "it may be used again, as any ledger"
    assert len(list(temporary.iterdir())) == 1
    del found
    gc.collect()
    assert list(temporary.iterdir()) == []


def test_writing_is_refused(
    url: str, writer: Ledger, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = reader(url, monkeypatch)
    with pytest.raises(LedgerError, match="is read-only for this user; nothing was changed"):
        append(found)
    assert writer.head() == 1


def test_a_writer_at_work_does_not_tear_the_copy(
    url: str, writer: Ledger, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer closes the ledger now and then, so that the WAL file comes and goes."""
    ended = threading.Event()

    def write() -> None:
        while not ended.wait(0.001):
            with Ledger.open(url, RUN) as other:
                append(other)

    writer.close()
    thread = threading.Thread(target=write)
    found = reader(url, monkeypatch)
    thread.start()
    try:
        heads = [found.head() for _ in range(3)]
        seen = len(found.entries())
    finally:
        ended.set()
        thread.join()
    assert heads == sorted(heads)
    assert heads[-1] <= seen <= found.head() == writer.head()


def test_a_broken_ledger_is_an_error_and_no_copy_is_left(
    url: str, writer: Ledger, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(writer)
    found = reader(url, monkeypatch)
    writer.close()
    tamper(url, "UPDATE fedsgt_ledger SET body = '{}' WHERE position = 2")
    with pytest.raises(CorruptLedger):
        found.entries()
    found.close()
    file = Path(url.removeprefix("sqlite:///"))
    with file.open("r+b") as opened:
        opened.write(b"no database at all")
    with pytest.raises(LedgerError, match="restore the ledger from a backup"):
        found.head()
    assert list(temporary.iterdir()) == []


def test_a_writer_that_never_rests_is_read_in_the_end_or_named(
    url: str, writer: Ledger, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = read_only.PrivateCopy(Path(url.removeprefix("sqlite:///")))
    monkeypatch.setattr(read_only, "PAUSE", 0)
    monkeypatch.setattr(read_only, "SETTLED", 1e9)
    with copy.connect(1) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert copy.seen is None, "it is copied again at the next use"
    copy.remove()
    numbers = iter(range(1000))
    monkeypatch.setattr(copy, "_stamps", lambda: ((0, 0, next(numbers)), None))
    with pytest.raises(LedgerError, match="is being written all the time; try again"):
        copy.connect(1)
    assert list(temporary.iterdir()) == []
    assert isinstance(connection, sqlite3.Connection)
    connection.close()
