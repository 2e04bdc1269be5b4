"""A SQLite ledger that this user can only read: copied to a private place, and read there.

A database in WAL mode cannot be read without writing beside it, and SQLite's `immutable` mode would miss the
WAL file, and with it the latest deletions. So both files are copied, and copied again once they change.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

from fedsgt.ledger.chain import LedgerError

Stamp: TypeAlias = tuple[int, int, int] | None
Stamps: TypeAlias = tuple[Stamp, Stamp]

TRIES = 100
PAUSE = 0.02
# File systems note times in steps: a file may be written twice without a change of its stamp, but not once
# the stamp has been the same for so many seconds.
SETTLED = 0.05


def can_be_written(file: Path) -> bool:
    """Whether SQLite can write the database and, beside it, its WAL file."""
    return os.access(file, os.W_OK) and os.access(file.parent, os.W_OK | os.X_OK)


class PrivateCopy:
    """Copy of a database in a folder that only this user can read."""

    def __init__(self, file: Path) -> None:
        # SQLite keeps the WAL file beside the database itself, not beside a link to it.
        self.file = file.resolve()
        self.wal = self.file.with_name(f"{self.file.name}-wal")
        self.lock = threading.Lock()
        self.folder: Path | None = None
        self.seen: Stamps | None = None
        """Stamps of the files that were copied; None if they may change and keep these."""

    def connect(self, wait: float) -> sqlite3.Connection:
        """Open the copy, after copying again if the database has changed."""
        with self.lock:
            if self.folder is None or self.seen != self._stamps():
                self._copy()
            assert self.folder is not None
            # Opened under the lock: the next copy removes this one, which an open file outlives.
            return sqlite3.connect(
                f"{(self.folder / 'copy').as_uri()}?mode=ro",
                uri=True,
                timeout=wait,
                isolation_level=None,
                check_same_thread=False,
            )

    def remove(self) -> None:
        """Remove the copy; the next use makes another."""
        with self.lock:
            self._remove()

    def _remove(self) -> None:
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.folder = self.seen = None

    def _copy(self) -> None:
        """Copy both files at a moment when nobody writes them."""
        self._remove()
        self.folder = Path(tempfile.mkdtemp(prefix="fedsgt-ledger-"))  # for its owner only
        try:
            self.seen = self._settled_copy(self.folder / "copy")
        except BaseException:  # an interrupt too
            self._remove()
            raise

    def _settled_copy(self, target: Path) -> Stamps | None:
        """Make the copy and return the stamps of the files; None if they were never at rest."""
        known, since = self._stamps(), time.monotonic()
        for attempt in range(TRIES):
            time.sleep(PAUSE)
            now = self._stamps()
            if now != known:
                known, since = now, time.monotonic()
            settled = time.monotonic() - since >= SETTLED
            # A writer that never rests is read in between in the end; the chain of hashes is checked.
            if settled or attempt >= TRIES // 2:
                try:
                    if self._copied(target, known):
                        return known if settled else None
                except sqlite3.DatabaseError:
                    if settled:  # it is not torn, but broken
                        raise
        raise LedgerError(f"cannot read ledger {self.file}: it is being written all the time; try again")

    def _copied(self, target: Path, before: Stamps) -> bool:
        """Copy the files; return whether the copy is whole, which it is if no file changed meanwhile."""
        wal = target.with_name("copy-wal")
        shutil.copyfile(self.file, target)
        wal.unlink(missing_ok=True)
        if before[1] is not None:
            try:
                shutil.copyfile(self.wal, wal)
            except FileNotFoundError:
                return False
        if self._stamps() != before:
            return False
        # Puts the content of the WAL file into the copy, which then is read without any file beside it.
        with closing(sqlite3.connect(target)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
        return True

    def _stamps(self) -> Stamps:
        return _stamp(self.file), _stamp(self.wal)


def _stamp(file: Path) -> Stamp:
    """Return numbers that change whenever the file is written; None if it is not there."""
    try:
        # Opened, because a network file system may answer for a closed file from its memory.
        with file.open("rb") as opened:
            found = os.fstat(opened.fileno())
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
