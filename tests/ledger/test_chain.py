"""A ledger that was changed behind its back is never read as if it were whole."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from databases import sqlite_url, tamper
from hypothesis import given
from hypothesis import strategies as st

from fedsgt.files.encoding import frames
from fedsgt.ledger.chain import Chain, LedgerRow, key_hash, make_row
from fedsgt.ledger.kinds import Kind
from fedsgt.ledger.ledger import CorruptLedger, Entry, Ledger, LedgerError

LENGTH = 6
TABLE = "fedsgt_ledger"
TIMES = [f"2026-01-01T00:00:00.00000{number}Z" for number in range(10)]


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    with Ledger.create(ledger_url, "run", {"n": 1}) as made:
        for number in range(2, LENGTH + 1):
            with made.writing() as writer:
                writer.append(Kind.REQUEST, {"n": number}, key=f"key {number}")
        yield made


def swap(one: int, two: int) -> list[str]:
    return [
        f"UPDATE {TABLE} SET position = {new} WHERE position = {old}"
        for old, new in [(one, 99), (two, one), (99, two)]
    ]


def removed(*positions: int) -> list[str]:
    return [f"DELETE FROM {TABLE} WHERE position = {position}" for position in positions]


def changed(column: str, value: str, position: int = 3) -> list[str]:
    return [f"UPDATE {TABLE} SET {column} = '{value}' WHERE position = {position}"]


DAMAGES = {
    "body": (changed("body", '{"n":4}'), 3),
    "spacing of the body": (changed("body", '{"n": 3}'), 3),
    "kind": (changed("kind", "opened"), 3),
    "time": (changed("time", "2026-01-01T00:00:00.000000Z"), 3),
    "key": (changed("key", "0" * 64), 3),
    "previous": (changed("previous", "0" * 64), 3),
    "hash": (changed("hash", "0" * 64), 3),
    "no key": ([f"UPDATE {TABLE} SET key = NULL WHERE position = 3"], 3),
    "last body": (changed("body", '{"n":4}', LENGTH), LENGTH),
    "first body": (changed("body", "{}", 1), 1),
    "swapped": (swap(3, 4), 3),
    "gap": (removed(3), 3),
    "wide gap": (removed(3, 4), 3),
    "no first": (removed(1), 1),
    "closed gap": ([*removed(3), *swap(4, 3)[:1], f"UPDATE {TABLE} SET position = 3 WHERE position = 99"], 3),
    "far away": ([f"UPDATE {TABLE} SET position = 90 WHERE position = {LENGTH}"], LENGTH),
    "other run": ([f"UPDATE {TABLE} SET run = 'x' WHERE position = 3"], 3),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named_by_its_position(ledger: Ledger, ledger_url: str, damage: str) -> None:
    statements, position = DAMAGES[damage]
    tamper(ledger_url, *statements)
    with Ledger.open(ledger_url, "run") as fresh:
        for read in (fresh.entries, lambda: fresh.entries(LENGTH - 1), lambda: fresh.find("key 2")):
            with pytest.raises(CorruptLedger, match=rf"run run: entry {position} "):
                read()
        with pytest.raises(CorruptLedger, match=rf"entry {position} "), fresh.writing() as writer:
            writer.append(Kind.REQUEST, {})
    with pytest.raises(CorruptLedger, match=rf"entry {position} "):
        ledger.entries()


def test_a_row_that_was_changed_with_its_hash_breaks_the_next(ledger: Ledger, ledger_url: str) -> None:
    forge(ledger_url, ledger.entries(), 3)
    with (
        Ledger.open(ledger_url, "run") as fresh,
        pytest.raises(CorruptLedger, match="entry 4 does not follow"),
    ):
        fresh.entries()
    with pytest.raises(CorruptLedger, match="entry 3 is not as it was before"):
        ledger.entries()
    with pytest.raises(CorruptLedger, match="entry 3 is not as it was before"):
        ledger.find("key 3")


def forge(url: str, entries: list[Entry], position: int) -> None:
    """Another body with the hash that fits it."""
    before, old = (entries[place - 1] for place in (position - 1, position))
    start = LedgerRow(before.position, "", before.time, "", "", None, before.hash)
    row = make_row("run", start, Kind(old.kind), old.time, {"n": 0}, key_hash("run", f"key {position}"))
    set_all = f"UPDATE {TABLE} SET body = '{row.body}', hash = '{row.hash}'"
    tamper(url, f"{set_all} WHERE position = {position}")


def test_a_last_row_that_was_changed_with_its_hash_is_known_to_who_saw_it(
    ledger: Ledger, ledger_url: str
) -> None:
    with Ledger.open(ledger_url, "run") as saw_the_head_only:
        forge(ledger_url, ledger.entries(), LENGTH)
        for known in (ledger, saw_the_head_only):
            with pytest.raises(CorruptLedger, match=f"entry {LENGTH} is not as it was before"):
                known.head()
            with pytest.raises(CorruptLedger, match=f"entry {LENGTH} is not as it was before"):
                known.entries(LENGTH)


def test_a_tail_that_was_cut_off_is_missed_by_who_saw_it(ledger: Ledger, ledger_url: str) -> None:
    with Ledger.open(ledger_url, "run") as saw_the_head_only:
        tamper(ledger_url, *removed(5, 6))
        for known in (ledger, saw_the_head_only):
            for read in (known.head, known.entries, lambda known=known: known.entries(9)):
                with pytest.raises(CorruptLedger, match=r"entry [56] is missing; there were 6"):
                    read()
            with pytest.raises(CorruptLedger, match=r"entry [56] is missing"), known.writing():
                pass
    tamper(ledger_url, *removed(1, 2, 3, 4))
    with pytest.raises(CorruptLedger, match="entry 1 is missing"):
        ledger.head()
    with pytest.raises(LedgerError, match="no entries"):
        Ledger.open(ledger_url, "run")


def test_a_ledger_cannot_be_passed_off_as_another_runs(ledger: Ledger, ledger_url: str) -> None:
    tamper(ledger_url, f"UPDATE {TABLE} SET run = 'other'")
    with (
        Ledger.open(ledger_url, "other") as other,
        pytest.raises(CorruptLedger, match="entry 1 does not match"),
    ):
        other.entries()


def test_hashes_are_taken_as_described() -> None:
    key = hashlib.sha256(frames("fedsgt.idempotency.1", "run", "key")).hexdigest()
    row = make_row("run", None, Kind.OPENED, TIMES[0], {"b": [1, 2], "a": "ü"}, key_hash("run", "key"))
    parts = ("run", 1, "opened", TIMES[0], "0" * 64, key, '{"a":"\\u00fc","b":[1,2]}')
    assert row.hash == hashlib.sha256(frames("fedsgt.ledger.1", *parts)).hexdigest()
    keyless = make_row("run", None, Kind.OPENED, TIMES[0], {}, None)
    parts = ("run", 1, "opened", TIMES[0], "0" * 64, "", "{}")
    assert keyless.hash == hashlib.sha256(frames("fedsgt.ledger.1", *parts)).hexdigest()


@pytest.mark.parametrize("column", ["kind", "time", "body", "previous", "key", "hash", "position"])
@pytest.mark.parametrize("value", ["x'ff00'", "'x'", "7.5", "''"])
def test_values_of_other_types(tmp_path: Path, column: str, value: str) -> None:
    url = sqlite_url(tmp_path)
    with Ledger.create(url, "run", {}) as ledger:
        with ledger.writing() as writer:
            writer.append(Kind.REQUEST, {}, key="key")
        tamper(url, f"UPDATE {TABLE} SET {column} = {value} WHERE position = 2")
        with pytest.raises(CorruptLedger, match="entry"):
            ledger.entries(1)
    with pytest.raises(CorruptLedger), Ledger.open(url, "run") as fresh:
        fresh.entries()


def test_text_that_is_no_text(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    with Ledger.create(url, "run", {}) as ledger:
        tamper(url, f"UPDATE {TABLE} SET body = CAST(x'ff00' AS TEXT)")
        with pytest.raises(LedgerError) as caught:
            ledger.entries()
    assert "\n" not in str(caught.value)


texts = st.text(max_size=5)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.none() | st.booleans() | numbers | texts | st.lists(texts | numbers, max_size=3)
bodies = st.dictionaries(texts, values | st.dictionaries(texts, values, max_size=2), max_size=3)


def made_rows(contents: list[dict[str, Any]]) -> list[LedgerRow]:
    rows: list[LedgerRow] = []
    for number, body in enumerate(contents):
        key = key_hash("run", str(number)) if number % 2 else None
        rows.append(make_row("run", rows[-1] if rows else None, Kind.REQUEST, TIMES[number], body, key))
    return rows


def check(rows: list[LedgerRow]) -> list[LedgerRow]:
    return Chain("run", "here").check(rows, 1, 0)


@given(st.lists(bodies, max_size=3))
def test_whole_chains_pass(contents: list[dict[str, Any]]) -> None:
    assert [row.entry().body for row in check(made_rows(contents))] == contents


@given(st.lists(bodies, min_size=1, max_size=3), st.data())
def test_no_field_can_be_changed(contents: list[dict[str, Any]], data: st.DataObject) -> None:
    rows = made_rows(contents)
    place = data.draw(st.integers(0, len(rows) - 1))
    field = data.draw(st.sampled_from(LedgerRow._fields))
    value: Any = data.draw(texts | st.none() | st.integers() | st.binary() | st.sampled_from(rows[0]))
    if value == getattr(rows[place], field) or (field == "key" and not value and not rows[place].key):
        return
    rows[place] = rows[place]._replace(**{field: value})
    with pytest.raises(CorruptLedger):
        check(rows)


@given(st.permutations(range(4)), st.integers(1, 4))
def test_no_order_but_the_first_and_no_gap(order: list[int], length: int) -> None:
    rows = made_rows([{}] * 4)
    chosen = [rows[place] for place in order][:length]
    if chosen == rows[:length]:
        assert check(chosen) == chosen
    else:
        with pytest.raises(CorruptLedger):
            check(chosen)


def test_a_time_that_goes_back_does_not_fit_even_with_its_hash() -> None:
    first = make_row("run", None, Kind.OPENED, TIMES[5], {}, None)
    second = make_row("run", first._replace(time=TIMES[1]), Kind.REQUEST, TIMES[2], {}, None)
    with pytest.raises(CorruptLedger, match="entry 2 has time"):
        check([first, second])
