"""The ledger's promises to one process, on both databases."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from databases import execute

from fedsgt.errors import InputError
from fedsgt.ledger import ledger as ledger_module
from fedsgt.ledger.chain import LedgerRow, make_row
from fedsgt.ledger.kinds import Kind
from fedsgt.ledger.ledger import Entry, Ledger, LedgerError

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    with Ledger.create(ledger_url, "run", {"n": 0}) as made:
        yield made


def append(ledger: Ledger, *numbers: int) -> list[Entry]:
    with ledger.writing() as writer:
        return [writer.append(Kind.REQUEST, {"n": number}, key=f"key {number}") for number in numbers]


def numbers(entries: list[Entry]) -> list[int]:
    return [entry.body["n"] for entry in entries]


def test_what_is_appended_is_read_in_order(ledger: Ledger, ledger_url: str) -> None:
    appended = append(ledger, 1, 2)
    with Ledger.open(ledger_url, "run") as other:
        assert other.head() == ledger.head() == 3
        assert other.entries() == ledger.entries()
        assert other.entries()[1:] == appended
        assert [entry.kind for entry in other.entries()] == ["opened", "request", "request"]
        assert [entry.position for entry in other.entries()] == [1, 2, 3]
        assert other.entries()[0].previous == "0" * 64
        assert [entry.previous for entry in appended] == [entry.hash for entry in ledger.entries()[:2]]


@pytest.mark.parametrize(
    ("after", "expected"), [(-1, [0, 1, 2]), (0, [0, 1, 2]), (1, [1, 2]), (3, []), (9, [])]
)
def test_entries_after_a_position(ledger: Ledger, ledger_url: str, after: int, expected: list[int]) -> None:
    append(ledger, 1, 2)
    with Ledger.open(ledger_url, "run") as fresh:
        assert numbers(fresh.entries(after)) == expected
        assert numbers(fresh.entries(after)) == expected
    with ledger.writing() as writer:
        assert numbers(writer.entries(after)) == expected


def test_another_ledgers_appends_are_seen_at_once(ledger: Ledger, ledger_url: str) -> None:
    with Ledger.open(ledger_url, "run") as other:
        for number in range(1, 4):
            append(ledger, number)
            assert other.head() == 2 * number
            assert numbers(other.entries(2 * number - 1)) == [number]
            (entry,) = append(other, -number)
            assert ledger.find(f"key {-number}") == entry
            assert numbers(ledger.entries())[-2:] == [number, -number]


def test_an_entry_is_found_by_its_key_and_the_key_is_not_kept(ledger: Ledger, ledger_url: str) -> None:
    appended = append(ledger, 1, 2)
    with Ledger.open(ledger_url, "run") as fresh:
        assert fresh.find("key 2") == appended[1]
        assert fresh.find("key 1") == appended[0]
        assert fresh.find("key 3") is None
        with fresh._database.connected() as connection:
            kept = str(connection.exec_driver_sql("SELECT * FROM fedsgt_ledger").all())
    assert "request" in kept
    assert "key" not in kept


def test_a_writer_sees_its_own_entries_and_others_do_not(ledger: Ledger) -> None:
    append(ledger, 1)
    with ledger.writing() as writer:
        assert writer.head == 2
        own = writer.append(Kind.REQUEST, {"n": 2}, key="own")
        assert writer.head == 3
        assert writer.find("own") == own
        assert numbers(writer.entries()) == [0, 1, 2]
        assert ledger.head() == 2
        assert ledger.find("own") is None
        assert numbers(ledger.entries()) == [0, 1]
    assert ledger.find("own") == own


def test_an_exception_undoes_all_of_a_writers_entries(ledger: Ledger, ledger_url: str) -> None:
    def fail() -> None:
        with ledger.writing() as writer:
            writer.append(Kind.REQUEST, {"n": 1}, key="lost")
            assert numbers(writer.entries()) == [0, 1]
            raise KeyError("a caller's own error")

    with pytest.raises(KeyError, match="a caller's own"):
        fail()
    assert ledger.head() == 1
    assert ledger.find("lost") is None
    append(ledger, 2)
    with Ledger.open(ledger_url, "run") as fresh:
        assert numbers(fresh.entries()) == numbers(ledger.entries()) == [0, 2]


def test_a_key_is_used_once_in_a_run(ledger: Ledger, ledger_url: str) -> None:
    append(ledger, 1)
    with ledger.writing() as writer:
        with pytest.raises(InputError, match="that of entry 2"):
            writer.append(Kind.REQUEST, {}, key="key 1")
        writer.append(Kind.REQUEST, {"n": 2}, key="new")
        with pytest.raises(InputError, match="that of entry 3"):
            writer.append(Kind.REQUEST, {}, key="new")
    assert numbers(ledger.entries()) == [0, 1, 2]
    with Ledger.create(ledger_url, "other", {"n": 9}) as other:
        append(other, 1)


def test_runs_in_one_database_know_nothing_of_each_other(ledger: Ledger, ledger_url: str) -> None:
    with Ledger.create(ledger_url, "other", {"n": 7}) as other:
        append(other, 8)
        append(ledger, 1)
        assert other.find("key 1") is None
        assert numbers(other.entries()) == [7, 8]
        assert numbers(ledger.entries()) == [0, 1]
        assert other.entries()[0].hash != ledger.entries()[0].hash


def test_a_run_has_one_ledger(ledger: Ledger, ledger_url: str) -> None:
    with pytest.raises(LedgerError, match="has entries of run run already"):
        Ledger.create(ledger_url, "run", {})
    assert ledger.head() == 1


def test_a_lost_ledger_is_an_error(ledger_url: str, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"missing|no entries"):
        Ledger.open(ledger_url, "run")
    assert not list(tmp_path.iterdir())
    Ledger.create(ledger_url, "other", {}).close()
    with pytest.raises(LedgerError, match="no entries of run run"):
        Ledger.open(ledger_url, "run")


def test_times_never_go_back(ledger_url: str) -> None:
    here = timezone(timedelta(hours=2))
    clock = iter([NOON, NOON - timedelta(days=1), NOON.astimezone(here) + timedelta(microseconds=5)])
    with Ledger.create(ledger_url, "run", {"n": 0}, clock=lambda: next(clock)) as ledger:
        append(ledger, 1, 2)
        times = [entry.time for entry in ledger.entries()]
    assert times == [*["2026-01-01T12:00:00.000000Z"] * 2, "2026-01-01T12:00:00.000005Z"]


def test_the_database_itself_refuses_changes(ledger: Ledger, ledger_url: str) -> None:
    append(ledger, 1)
    copy = "SELECT run, position, kind, time, body, previous, key, hash FROM fedsgt_ledger WHERE position = 2"
    attempts = [
        "UPDATE fedsgt_ledger SET kind = 'x'",
        "DELETE FROM fedsgt_ledger",
        f"INSERT INTO fedsgt_ledger {copy}",
    ]
    if ledger_url.startswith("sqlite"):
        other_place = copy.replace("run, position", "run, 3").replace("hash FROM", "'x' FROM")
        attempts += [f"REPLACE INTO fedsgt_ledger {copy}", f"REPLACE INTO fedsgt_ledger {other_place}"]
    else:
        attempts += ["TRUNCATE fedsgt_ledger"]
    for attempt in attempts:
        with pytest.raises(Exception, match=r"append-only|duplicate key"):
            execute(ledger_url, attempt)
    assert numbers(ledger.entries()) == [0, 1]


def test_a_second_writer_waits_and_then_says_so(ledger: Ledger, ledger_url: str) -> None:
    with Ledger.open(ledger_url, "run", wait=0.1) as impatient, ledger.writing():
        assert impatient.head() == 1
        assert len(impatient.entries()) == 1
        with pytest.raises(LedgerError, match="another writer has been at work"), impatient.writing():
            pass
    with impatient, impatient.writing() as writer:
        with pytest.raises(LedgerError, match="another writer has been at work"), impatient.writing():
            pass
        writer.append(Kind.REQUEST, {"n": 1})
    assert numbers(ledger.entries()) == [0, 1]


def test_readers_go_on_while_many_threads_wait_to_write(ledger: Ledger) -> None:
    threads = [threading.Thread(target=append, args=(ledger, number)) for number in range(1, 26)]
    with ledger.writing():
        for thread in threads:
            thread.start()
        assert ledger.head() == 1
        assert numbers(ledger.entries()) == [0]
    for thread in threads:
        thread.join()
    assert sorted(numbers(ledger.entries())) == list(range(26))


def test_threads_share_a_ledger(ledger: Ledger) -> None:
    problems = []

    def work(thread: int) -> None:
        try:
            for number in range(10):
                before = ledger.head()
                (entry,) = append(ledger, 100 * thread + number)
                assert ledger.head() >= entry.position > before
                assert ledger.find(f"key {100 * thread + number}") == entry
                assert entry in ledger.entries(before)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert [entry.position for entry in ledger.entries()] == list(range(1, 62))


def test_after_an_error_of_the_database_nothing_is_written(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(*arguments: Any) -> LedgerRow:
        return make_row(*arguments)._replace(position=1)

    def goes_on_regardless() -> None:
        with ledger.writing() as writer:
            writer.append(Kind.REQUEST, {"n": 1})
            monkeypatch.setattr(ledger_module, "make_row", taken)
            with pytest.raises(LedgerError, match="cannot write"):
                writer.append(Kind.REQUEST, {"n": 2})
            monkeypatch.undo()
            with pytest.raises(LedgerError, match="cannot write"):
                writer.append(Kind.REQUEST, {"n": 3})

    with pytest.raises(LedgerError, match="cannot write"):
        goes_on_regardless()
    assert numbers(ledger.entries()) == [0]
    append(ledger, 4)
    assert numbers(ledger.entries()) == [0, 4]


def test_every_connection_is_durable(ledger: Ledger, ledger_url: str) -> None:
    for _ in range(2):
        with ExitStack() as stack:
            connections = [stack.enter_context(ledger._database.connected()) for _ in range(8)]
            for connection in connections:
                if ledger_url.startswith("sqlite"):
                    assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
                    assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
                else:
                    assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
        ledger.close()
    with ledger.writing() as writer:
        question = "PRAGMA synchronous" if ledger_url.startswith("sqlite") else "SHOW synchronous_commit"
        assert writer._connection.exec_driver_sql(question).scalar() in (2, "on")
