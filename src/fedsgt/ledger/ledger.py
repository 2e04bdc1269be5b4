"""The ledger: an append-only, hash-chained list of entries of one run, in SQLite or PostgreSQL.

Appended entries are on disk once `writing` has ended. Callers import this module and not the package, so that
the package loads without the database library.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import quote

from sqlalchemy import Connection, bindparam, insert, select

from fedsgt.errors import InputError
from fedsgt.files.formats import NewerFormat
from fedsgt.ledger.chain import (
    NO_HASH,
    Chain,
    CorruptLedger,
    Entry,
    LedgerError,
    LedgerRow,
    key_hash,
    make_row,
)
from fedsgt.ledger.database import Database, open_database, reported
from fedsgt.ledger.high_water import HighWater, RolledBack
from fedsgt.ledger.kinds import Kind
from fedsgt.ledger.marks import warn_once
from fedsgt.ledger.tables import ENTRIES, MARKS, has_table, make_tables

__all__ = ["CorruptLedger", "Entry", "Ledger", "LedgerError", "RolledBack", "Writer", "file_url"]

Clock = Callable[[], datetime]
# Seconds that a writer waits for another one to finish.
WAIT = 30.0
# Largest number that the column holds: no upper end.
_LAST_POSITION = 2**63 - 1
_OF_RUN = ENTRIES.c.run == bindparam("run")
_HEAD = select(ENTRIES.c.position, ENTRIES.c.hash).where(_OF_RUN).order_by(ENTRIES.c.position.desc()).limit(1)
_ROWS = (
    select(*(ENTRIES.c[name] for name in LedgerRow._fields))
    .where(_OF_RUN, ENTRIES.c.position.between(bindparam("start"), bindparam("end")))
    .order_by(ENTRIES.c.position)
)


def utc_now() -> datetime:
    """Return the present time in UTC."""
    return datetime.now(UTC)


def file_url(path: Path) -> str:
    """Return the URL of a ledger in this file, whatever characters its name has."""
    return f"sqlite:///{quote(str(path.absolute()))}"


class Ledger:
    """Entries of one run. Threads may share it."""

    def __init__(self, database: Database, run: str, clock: Clock) -> None:
        """Use `create` or `open` instead."""
        self.run, self.clock = run, clock
        self._database = database
        self._chain = Chain(run, database.where)
        self.high_water = HighWater(database, run, self._chain)
        # A run's folder keeps its ledger open for as long as it is used, and nobody closes a folder.
        weakref.finalize(self, database.engine.dispose)

    @classmethod
    def create(
        cls, url: str, run: str, body: dict[str, Any], *, clock: Clock = utc_now, wait: float = WAIT
    ) -> Ledger:
        """Make a ledger whose first entry, of kind `opened`, has this body; refuse a run that has entries."""
        with _opened(cls, url, run, clock, wait, "create") as ledger:
            ledger._make_tables()
            with ledger.writing() as writer:
                ledger._check_new(writer)
                writer.append(Kind.OPENED, body)
        return ledger

    def copy(self, url: str, run: str, end: int, further: Sequence[tuple[Kind, dict[str, Any]]]) -> Ledger:
        """Make another run's ledger with the entries up to `end`, at the same positions, and `further` ones.

        Idempotency keys are not copied: their hashes hold for this run only.
        """
        with _opened(type(self), url, run, self.clock, WAIT, "create") as ledger:
            ledger._make_tables()
            # Read before: both ledgers may be in one database, and a writer keeps other connections waiting.
            entries = [entry for entry in self.entries() if entry.position <= end]
            with ledger.writing() as writer:
                ledger._check_new(writer)
                for entry in entries:
                    writer.append(_known_kind(entry), entry.body, time=entry.time)
                for kind, body in further:
                    writer.append(kind, body)
        return ledger

    @classmethod
    def open(cls, url: str, run: str, *, clock: Clock = utc_now, wait: float = WAIT) -> Ledger:
        """Open the ledger of a run; refuse an empty one, since it would know of no deletion."""
        with _opened(cls, url, run, clock, wait, "open") as ledger:
            if not ledger._has_table() or not ledger.head():
                raise LedgerError(
                    f"ledger {ledger._database.where} has no entries of run {run}; a lost ledger is restored"
                    " from a backup, not made anew"
                )
            ledger._make_marks()
        return ledger

    def head(self) -> int:
        """Return the position of the last entry that any process has committed."""
        # Taken before the query: what other threads see meanwhile may be newer than its answer.
        seen = self._chain.seen
        with self._database.connected() as connection, reported("read", self._database.where):
            found = connection.execute(_HEAD, {"run": self.run}).one_or_none()
        position, code = found or (0, NO_HASH)
        self._chain.check_head(position, code, seen)
        return int(position)

    def entries(self, after: int = 0) -> list[Entry]:
        """Return the entries after this position, in order, and check all entries that are new."""
        with self._database.connected() as connection:
            return self._entries(connection, after)

    def find(self, key: str) -> Entry | None:
        """Return the entry that was appended with this idempotency key; None if there is none."""
        with self._database.connected() as connection:
            return self._find(connection, key)

    @contextmanager
    def writing(self) -> Iterator[Writer]:
        """Yield the only writer of all processes and threads; commit its entries unless there is an error."""
        with self._database.locked(self.run) as connection:
            writer = Writer(self, connection)
            yield writer
            writer._commit()
        # Before the writer's caller gets its answer: an answered request must never be forgotten.
        if writer._requested and self.high_water.file is not None:
            self.high_water.rise_unless_refused()

    def close(self) -> None:
        """Close the connections."""
        self._database.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _has_table(self) -> bool:
        with self._database.connected() as connection, reported("read", self._database.where):
            return has_table(connection)

    def _make_tables(self) -> None:
        # Other runs may make the tables at the same time, so the lock has a name that no run has.
        with self._database.locked("") as connection, reported("create", self._database.where):
            make_tables(connection)
            connection.commit()

    def _make_marks(self) -> None:
        """Make the table of marks in a database that an earlier version made."""
        if self._database.file:
            return
        with self._database.connected() as connection, reported("read", self._database.where):
            if has_table(connection, MARKS):
                return
        try:
            self._make_tables()
        except LedgerError as error:  # a user who may only read, for one
            warn_once(f"table {MARKS.name} of {self._database.where}", error)

    def _check_new(self, writer: Writer) -> None:
        if writer.head:
            raise LedgerError(
                f"ledger {self._database.where} has entries of run {self.run} already; open it instead"
            )

    def _entries(self, connection: Connection, after: int) -> list[Entry]:
        # The last known row is read again: it must still be there, and the next must follow it.
        start = max(1, min(after + 1, len(self._chain)))
        return [row.entry() for row in self._rows(connection, start) if row.position > after]

    def _find(self, connection: Connection, key: str) -> Entry | None:
        code = key_hash(self.run, key)
        # Another process may have used the key since the last reading.
        self._catch_up(connection)
        position = self._chain.position_of(code)
        return None if position is None else self._rows(connection, position, position)[0].entry()

    def _catch_up(self, connection: Connection) -> None:
        self._rows(connection, max(1, len(self._chain)))

    def _rows(self, connection: Connection, start: int, end: int | None = None) -> list[LedgerRow]:
        at_least = end or self._chain.seen[0]
        values = {"run": self.run, "start": start, "end": end or _LAST_POSITION}
        with reported("read", self._database.where):
            rows = connection.execute(_ROWS, values).all()
        return self._chain.check(rows, start, at_least)


class Writer:
    """Appends entries in one transaction; there is no other writer of this run meanwhile."""

    def __init__(self, ledger: Ledger, connection: Connection) -> None:
        """Use `Ledger.writing` instead."""
        self._ledger, self._connection = ledger, connection
        self._failure: LedgerError | None = None
        self._new: list[LedgerRow] = []
        ledger._catch_up(connection)
        # The lock is held, so this stays the last committed entry until the writer commits.
        self._base = ledger._chain.last

    @property
    def head(self) -> int:
        """Position of the last entry, including those that this writer has appended."""
        last = self._last()
        return last.position if last else 0

    def entries(self, after: int = 0) -> list[Entry]:
        """Return the entries after this position, including those that this writer has appended."""
        committed = self._committed(max(after, 0) + 1, self._base.position) if self._base else []
        return [row.entry() for row in (*committed, *self._new) if row.position > after]

    def find(self, key: str) -> Entry | None:
        """Return the entry with this idempotency key, this writer's own among them; None if there is none."""
        code = key_hash(self._ledger.run, key)
        own = next((row for row in self._new if row.key == code), None)
        if own:
            return own.entry()
        position = self._ledger._chain.position_of(code)
        return self._committed(position, position)[0].entry() if position else None

    def append(
        self, kind: Kind, body: dict[str, Any], key: str | None = None, time: str | None = None
    ) -> Entry:
        """Append an entry and return it; refuse an idempotency key that this run has used before.

        `time` is for entries that are copied from another ledger; it is the present time otherwise.
        """
        # The table refuses it as well, but only with the words of the database.
        if key is not None and (used := self.find(key)):
            raise InputError(f"idempotency key of a new {kind} is that of entry {used.position}; use another")
        ledger, code = self._ledger, None if key is None else key_hash(self._ledger.run, key)
        row = make_row(ledger.run, self._last(), kind, time or _stamp(ledger.clock()), body, code)
        with self._unless_failed("write"):
            self._connection.execute(insert(ENTRIES), {"run": ledger.run, **row._asdict()})
        self._new.append(row)
        return row.entry()

    def _last(self) -> LedgerRow | None:
        return self._new[-1] if self._new else self._base

    def _committed(self, start: int, end: int) -> list[LedgerRow]:
        # Not beyond the base: rows that may still be rolled back must not get into the ledger's chain.
        with self._unless_failed("read"):
            return self._ledger._rows(self._connection, start, end) if start <= end else []

    @contextmanager
    def _unless_failed(self, action: str) -> Iterator[None]:
        # After an error the transaction may have ended, and a commit would do nothing and raise nothing.
        if self._failure:
            raise self._failure
        try:
            with reported(action, self._ledger._database.where):
                yield
        except LedgerError as error:
            self._failure = error
            raise

    @property
    def _requested(self) -> bool:
        return any(row.kind == Kind.REQUEST for row in self._new)

    def _commit(self) -> None:
        with self._unless_failed("write"):
            if self._requested and self._ledger.high_water.file is None:
                self._ledger.high_water.write_row(self._connection, self.head, self._new[-1].hash)
            self._connection.commit()
        # Other writers may have appended since, so these rows need not be the last ones.
        self._ledger._chain.check(self._new, self.head - len(self._new) + 1, end=self.head)


def _known_kind(entry: Entry) -> Kind:
    try:
        return Kind(entry.kind)
    except ValueError:
        raise NewerFormat(
            f"entry {entry.position} of the ledger is of kind {entry.kind!r}, which a newer version of "
            "fedsgt made; update fedsgt; nothing was changed"
        ) from None


def _stamp(time: datetime) -> str:
    # Always six digits and a Z, so that times compare as texts.
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


@contextmanager
def _opened(
    kind: type[Ledger], url: str, run: str, clock: Clock, wait: float, mode: Literal["create", "open"]
) -> Iterator[Ledger]:
    """Yield a new `Ledger`; close its connections if the caller cannot hand it out."""
    if not isinstance(run, str) or not run or "\0" in run:
        raise InputError(f"run id {run!r} is not allowed; it is a text, not empty and without zero bytes")
    ledger = kind(open_database(url, wait, mode), run, clock)
    try:
        yield ledger
    except BaseException:  # an interrupt too
        ledger.close()
        raise
