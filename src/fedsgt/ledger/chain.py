"""Entries of a ledger and the chain of hashes that joins them; the database is elsewhere."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from fedsgt.errors import InputError
from fedsgt.files.encoding import canonical_json, frames
from fedsgt.ledger.kinds import Kind

NO_HASH = "0" * 64


class LedgerError(InputError):
    """The ledger cannot be opened, read or written; the message says why and what to do."""


class CorruptLedger(LedgerError):
    """The ledger was changed after it was written; the message names the position and what is wrong there."""


@dataclass(frozen=True)
class Entry:
    """One entry of a ledger."""

    position: int
    """Number of the entry, from 1 and without gaps."""
    kind: str
    """A value of `Kind`, or one that a later version has added."""
    time: str
    """Time of writing, RFC 3339 in UTC with microseconds; never before that of the previous entry."""
    body: dict[str, Any]
    previous: str
    """Hash of the previous entry; zeros for the first."""
    hash: str
    """SHA-256 over the run and all fields of the entry, the previous hash among them."""


class LedgerRow(NamedTuple):
    """Entry as the table holds it; its values may be of any type until `Chain` has checked them."""

    position: int
    kind: str
    time: str
    body: str
    previous: str
    key: str | None
    hash: str

    def entry(self) -> Entry:
        """Return the entry without the key's hash, which only the ledger uses."""
        body = json.loads(self.body)
        return Entry(self.position, self.kind, self.time, body, self.previous, self.hash)


def key_hash(run: str, key: str) -> str:
    """Return the hash that is kept of an idempotency key: people may put names into keys."""
    if not isinstance(key, str) or not key:
        raise InputError(f"idempotency key {key!r} is not allowed; it is a text and not empty")
    return hashlib.sha256(frames("fedsgt.idempotency.1", run, key)).hexdigest()


def make_row(
    run: str, before: LedgerRow | None, kind: Kind, time: str, body: dict[str, Any], key: str | None
) -> LedgerRow:
    """Return the row that follows `before`; if the clock went backwards, the time stays the same."""
    if not isinstance(kind, Kind):
        raise InputError(f"ledger kind {kind!r} is unknown; one of {', '.join(Kind)}")
    # The first entry follows zeros: its hash too depends on a previous one.
    position, previous = (before.position + 1, before.hash) if before else (1, NO_HASH)
    # A plain text, not the enum's member: database drivers have ideas of their own about enums.
    row = LedgerRow(
        position, kind.value, max(time, before.time if before else ""), _text(body), previous, key, ""
    )
    return row._replace(hash=_digest(run, row))


def _text(body: dict[str, Any]) -> str:
    try:
        text = canonical_json(body)
        # The text is read back, since a list or a number is JSON too, but no body.
        if isinstance(json.loads(text), dict):
            return text
        problem = f"it is a {type(body).__name__}"
    except (TypeError, ValueError, RecursionError) as error:
        problem = str(error)
    raise InputError(f"body of a ledger entry: {problem}; it is an object of JSON values, NaN not among them")


def _digest(run: str, row: LedgerRow) -> str:
    # With the run, so that the entries of one run do not pass for those of another.
    parts = (row.position, row.kind, row.time, row.previous, row.key or "", row.body)
    return hashlib.sha256(frames("fedsgt.ledger.1", run, *parts)).hexdigest()


class Chain:
    """Hashes of the rows checked so far; every row must be as it was before, or follow the last one.

    Threads may share it.
    """

    def __init__(self, run: str, where: str) -> None:
        self.run, self.where = run, where
        self.last: LedgerRow | None = None
        # The highest position that was ever read and its hash, checked or not: a shorter ledger was cut off.
        self.seen = 0, NO_HASH
        self._hashes: list[str] = []
        # Hashes of idempotency keys, and the position where each was used.
        self._positions: dict[str, int] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return the number of rows checked so far."""
        return len(self._hashes)

    def position_of(self, key: str) -> int | None:
        """Return the position where the idempotency key with this hash was used; None if it was not."""
        return self._positions.get(key)

    def check_head(self, position: int, code: str, seen: tuple[int, str]) -> None:
        """Check that this may be the last entry; `seen` is the head that was known before the query.

        Other threads go on reading meanwhile, so `self.seen` may be newer than the query's answer.
        """
        if not isinstance(position, int):
            self._fail(seen[0] + 1, f"has no number but {position!r} as its position")
        self._check_length(position, seen[0])
        with self._lock:
            self._see(position, code, seen)

    def check(self, rows: Iterable[Sequence[Any]], start: int, end: int) -> list[LedgerRow]:
        """Check and return rows, which must go without gaps from position `start` at least to `end`."""
        found = [LedgerRow(*values) for values in rows]
        with self._lock:
            for expected, row in enumerate(found, start):
                if row.position != expected:
                    self._fail(expected, f"is missing; {row.position} follows")
                self._accept(row)
        # Rows missing at the end leave no gap that the loop could see.
        self._check_length(start + len(found) - 1, end)
        return found

    def _check_length(self, length: int, before: int) -> None:
        if length < before:
            self._fail(length + 1, f"is missing; there were {before} before")

    def _see(self, position: int, code: str, seen: tuple[int, str]) -> None:
        if position == seen[0] and code != seen[1]:
            self._fail(position, "is not as it was before")
        if position > self.seen[0]:
            self.seen = position, code

    def _accept(self, row: LedgerRow) -> None:
        # Known rows are hashed again too: their fields may have been changed and the hash left as it was.
        if row.hash != self._recomputed(row):
            self._fail(row.position, "does not match its hash: something in it was changed")
        if row.position > len(self._hashes):
            self._join(row)
        elif row.hash != self._hashes[row.position - 1]:
            self._fail(row.position, "is not as it was before")

    def _join(self, row: LedgerRow) -> None:
        if row.previous != (self.last.hash if self.last else NO_HASH):
            self._fail(row.position, "does not follow the entry before: it names another hash")
        if self.last and row.time < self.last.time:
            self._fail(row.position, f"has time {row.time}, earlier than {self.last.time} before it")
        self._see(row.position, row.hash, self.seen)
        self._hashes.append(row.hash)
        if row.key:
            self._positions[row.key] = row.position
        self.last = row

    def _recomputed(self, row: LedgerRow) -> str | None:
        try:
            return _digest(self.run, row)
        except InputError:  # a value of a type that no entry has, put there by another program
            return None

    def _fail(self, position: int, problem: str) -> NoReturn:
        raise CorruptLedger(
            f"ledger {self.where}, run {self.run}: entry {position} {problem}; restore it from a backup"
        )
