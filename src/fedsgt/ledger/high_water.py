"""Comparison of a ledger with its high-water mark: an older ledger is refused, a newer one raises it."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, delete, insert, select
from sqlalchemy.exc import SQLAlchemyError

from fedsgt.errors import InputError
from fedsgt.ledger.chain import Chain, LedgerError
from fedsgt.ledger.database import Database, reported
from fedsgt.ledger.kinds import Kind
from fedsgt.ledger.marks import SHORT, Mark, MarkFile, Stamp, warn_once
from fedsgt.ledger.tables import ENTRIES, MARKS, has_table
from fedsgt.words import counted

_OF_RUN = ENTRIES.c.run == bindparam("run")
_HASH_AT = select(ENTRIES.c.hash).where(_OF_RUN, ENTRIES.c.position == bindparam("position"))
_REQUESTS = select(ENTRIES.c.position, ENTRIES.c.hash).where(
    _OF_RUN,
    ENTRIES.c.kind == Kind.REQUEST.value,
    ENTRIES.c.position.between(bindparam("start"), bindparam("end")),
)
_MARK = select(MARKS.c.mark).where(MARKS.c.run == bindparam("run"))


class RolledBack(LedgerError):
    """The ledger is older than it has been: it lacks entries that its high-water mark knows of."""


class HighWater:
    """Mark of one ledger: a file of the user's for SQLite, a row of the same database for PostgreSQL."""

    def __init__(self, database: Database, run: str, chain: Chain) -> None:
        self.database, self.run, self.chain = database, run, chain
        self.file = MarkFile(run) if database.file else None
        # Stamp of the mark that was compared last, in a tuple; nothing was compared yet if it is None.
        self.checked: tuple[Stamp] | None = None

    def mark(self) -> Mark | None:
        """Return the mark; None if there is none."""
        if self.file is not None:
            return self.file.read()
        with self.database.connected() as connection, reported("read", self.database.where):
            return self._row(connection) if has_table(connection, MARKS) else None

    def check(self) -> None:
        """Raise `RolledBack` if the ledger is older than its mark.

        Costs one look at a file while the mark stays the same. In PostgreSQL mark and entries change
        together, so that one comparison is enough.
        """
        stamp = self.file.stamp() if self.file is not None else None
        if self.checked == (stamp,):
            return
        # The mark is read before the ledger: it is written after the entries, so they must be there.
        mark = self.mark()
        if mark is not None and not self.continues(mark):
            raise RolledBack(self._refusal(mark))
        self.checked = (stamp,)

    def continues(self, mark: Mark) -> bool:
        """Whether the ledger holds the very entry that the mark names."""
        with self.database.connected() as connection, reported("read", self.database.where):
            found = connection.execute(_HASH_AT, {"run": self.run, "position": mark.position})
            return found.scalar_one_or_none() == mark.hash

    def lacking(self, mark: Mark) -> list[int]:
        """Return the positions of the requests that the mark knows of and the ledger does not have."""
        with self.database.connected() as connection:
            known = self._requests(connection, 0, max(mark.requests, default=0))
        return sorted(place for place, code in mark.requests.items() if known.get(place) != code)

    def rise(self) -> None:
        """Raise the mark to the last entry that was read and checked; never move it backwards.

        A run without any request has nothing that could come back, and gets no mark.
        """
        last = self.chain.last
        if last is None:
            return
        if self.file is not None:
            with self.database.connected() as connection:
                self.file.change(lambda old: self._raised(connection, old, last.position, last.hash))
        elif (old := self.mark()) is None or old.position < last.position:
            with self.database.locked(self.run) as connection:
                self.write_row(connection, last.position, last.hash)
                connection.commit()

    def rise_unless_refused(self) -> None:
        """Raise the mark after a commit: the request is in force, so nothing here may be an error."""
        try:
            self.rise()
        except InputError as error:
            warn_once(self.file.path if self.file else self.database.where, error)

    def reset(self) -> None:
        """Set the mark to the last entry that was checked, also backwards: for a run that is restored."""
        last = self.chain.last
        assert last is not None  # a run has an entry from its beginning
        with self.database.locked(self.run) as connection:
            fresh = Mark(last.position, last.hash, self._requests(connection, 0, last.position))
            if self.file is None:
                self._put_row(connection, fresh)
                connection.commit()
        if self.file is not None:
            self.file.change(lambda old: None if old == fresh else fresh)
        self.checked = None

    def write_row(self, connection: Connection, position: int, code: str) -> None:
        """Raise the mark within a transaction in PostgreSQL; without permission there is a warning only."""
        try:
            with connection.begin_nested():
                fresh = self._raised(connection, self._row(connection), position, code)
                if fresh is not None:
                    self._put_row(connection, fresh)
        except (SQLAlchemyError, InputError) as error:
            warn_once(f"table {MARKS.name} of {self.database.where}", error)

    def _raised(self, connection: Connection, old: Mark | None, position: int, code: str) -> Mark | None:
        """Return the mark of this head; None if the old one must stay."""
        if old is not None:
            # A ledger that lacks the marked entry must not hide it: only a replay sets such a mark anew.
            found = connection.execute(_HASH_AT, {"run": self.run, "position": old.position})
            if old.position >= position or found.scalar_one_or_none() != old.hash:
                return None
        new = self._requests(connection, old.position if old else 0, position)
        return Mark(position, code, {**(old.requests if old else {}), **new}) if old or new else None

    def _requests(self, connection: Connection, after: int, end: int) -> dict[int, str]:
        with reported("read", self.database.where):
            rows = connection.execute(_REQUESTS, {"run": self.run, "start": after + 1, "end": end}).all()
        return {position: code[:SHORT] for position, code in rows}

    def _row(self, connection: Connection) -> Mark | None:
        text = connection.execute(_MARK, {"run": self.run}).scalar_one_or_none()
        where = f"table {MARKS.name} of {self.database.where}, run {self.run}"
        return None if text is None else Mark.read(text, where)

    def _put_row(self, connection: Connection, mark: Mark) -> None:
        connection.execute(delete(MARKS).where(MARKS.c.run == self.run))
        connection.execute(insert(MARKS), {"run": self.run, "mark": mark.to_text()})

    def _refusal(self, mark: Mark) -> str:
        lacking = self.lacking(mark)
        named = ", ".join(map(str, lacking[:20])) + (", ..." if len(lacking) > 20 else "")
        lost = (
            f"it lacks {counted(len(lacking), 'deletion request')}, no. {named}"
            if lacking
            else "it lacks no deletion request"
        )
        return (
            f"ledger {self.database.where}, run {self.run}: it is older than it has been, as after restoring "
            f"a backup: it was at entry {mark.position} before, and {lost}; nothing is served, nothing was "
            "changed; fedsgt replay RUN CERTIFICATES... applies the certificates of such requests; a copy "
            "that is meant to live beside its original is made with fedsgt copy RUN NEW"
        )
