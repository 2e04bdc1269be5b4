"""SQLite and PostgreSQL, opened so that a commit is on disk and writers take turns."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import Connection, Engine, NullPool, QueuePool, create_engine, event, func, make_url, select
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from fedsgt.errors import InputError
from fedsgt.files.durable import sync_folder
from fedsgt.files.encoding import frames
from fedsgt.ledger.chain import LedgerError
from fedsgt.ledger.read_only import PrivateCopy, can_be_written

# Advice for the errors that people may well see, by a word in the database's message.
_ADVICE = {
    "readonly": "the file, or the folder where SQLite writes beside it, is read-only for this user",
    "read-only": "this user may only read there",
    "locked": "another writer has been at work all the time; try again",
    "lock timeout": "another writer has been at work all the time; try again",
    "no space": "make room on its disk and try again",
    "full": "make room on its disk and try again",
    "disk i/o": "make room on its disk, or check the disk, and try again",
    "not a database": "restore the ledger from a backup",
    "malformed": "restore the ledger from a backup",
    "unable to open": "its folder must be there, and this user may need to write in it",
}


@contextmanager
def reported(action: str, where: str) -> Iterator[None]:
    """Turn an error of the database into one line that names the ledger and says what to do."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        cause = " ".join(str(getattr(error, "orig", None) or error).split())
        fitting = (advice for word, advice in _ADVICE.items() if word in cause.lower())
        advice = next(fitting, "the database must be there and let this user in")
        raise LedgerError(f"cannot {action} ledger {where}: {cause}; {advice}") from error


@dataclass(frozen=True)
class Database:
    """Open database, for short reads outside transactions and for one writer at a time."""

    engine: Engine
    where: str
    """Name for messages, without the password."""
    file: Path | None
    """File of a SQLite database; None for PostgreSQL."""
    identity: tuple[int, int] | None
    """Device and number of that file when it was opened."""
    wait: float
    """Seconds that a writer waits for its turn."""
    read_only: bool = False
    """Whether a copy is read, because this user cannot write the file."""
    # Taken before a connection: threads that wait for their turn must not hold one that readers need.
    turn: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def connected(self, action: str = "read") -> Iterator[Connection]:
        """Yield a connection; errors of the caller's own code are not reported as the database's."""
        with reported(action, self.where):
            if self.file and _identity(self.file) != self.identity:
                raise LedgerError(f"ledger {self.where} was removed or replaced while in use; open it again")
            connection = self.engine.connect()
        with closing(connection):
            yield connection

    @contextmanager
    def locked(self, name: str) -> Iterator[Connection]:
        """Yield a connection in the only transaction of this name; it has no effect unless committed."""
        if self.read_only:
            raise LedgerError(f"cannot write ledger {self.where}: {_ADVICE['readonly']}; nothing was changed")
        with self._turn_taken(), self.connected("write") as connection:
            with reported("write", self.where):
                if self.file:
                    # Takes the write lock now: a lock taken later would fail if another writer came between.
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                else:
                    # Each statement must see what was committed before it, whatever the server's default.
                    connection.execution_options(isolation_level="READ COMMITTED")
                    connection.execute(select(func.pg_advisory_xact_lock(_lock_number(name))))
            yield connection

    @contextmanager
    def _turn_taken(self) -> Iterator[None]:
        if not self.turn.acquire(timeout=self.wait):
            raise LedgerError(f"cannot write ledger {self.where}: it is locked; {_ADVICE['locked']}")
        try:
            yield
        finally:
            self.turn.release()


def open_database(address: str, wait: float, mode: Literal["create", "open"]) -> Database:
    """Open the database at this URL; only the mode `create` makes a SQLite file."""
    url = check_address(address)
    if url.drivername == "sqlite":
        return _sqlite(Path(str(url.database)).absolute(), wait, mode)
    return _postgres(url, wait)


def check_address(address: str) -> URL:
    """Return the URL of a database; raise if a ledger cannot be in such a one."""
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        raise InputError(_not_allowed(str(address).partition(":")[0])) from None
    # Options in the URL could turn off what makes a commit durable.
    if url.drivername == "sqlite" and url.database and url.database != ":memory:" and not url.query:
        return url
    if url.drivername in ("postgresql", "postgresql+psycopg"):
        return url.set(drivername="postgresql")
    raise InputError(_not_allowed(url.drivername))


def _not_allowed(scheme: str) -> str:
    return f"ledger URL with {scheme!r} is not allowed; sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"


def _sqlite(file: Path, wait: float, mode: Literal["create", "open"]) -> Database:
    with reported(mode, str(file)):
        if mode == "create":
            _make_file(file, wait)
        elif not file.is_file():
            raise LedgerError(
                f"ledger {file} is missing; a lost ledger is restored from a backup, not made anew"
            )
        identity = _identity(file)
    if not can_be_written(file):
        return Database(_copying_engine(file, wait), str(file), file, identity, wait, read_only=True)
    # `mode=rw` never makes a file, and `isolation_level=None` turns off sqlite3's own transactions.
    connect = partial(
        sqlite3.connect,
        f"{file.as_uri()}?mode=rw",
        uri=True,
        timeout=wait,
        isolation_level=None,
        check_same_thread=False,
    )
    # The URL names no file, so SQLAlchemy would keep one connection for each thread, as for memory.
    engine = create_engine("sqlite://", creator=connect, poolclass=QueuePool)
    event.listen(engine, "connect", _on_connect("PRAGMA synchronous = FULL", "PRAGMA fullfsync = ON"))
    return Database(engine, str(file), file, identity, wait)


def _copying_engine(file: Path, wait: float) -> Engine:
    """Return an engine whose every connection is to a copy of the database as it is then."""
    copy = PrivateCopy(file)
    # Without a pool: a connection that is kept would be to an older copy.
    engine = create_engine("sqlite://", creator=lambda: copy.connect(wait), poolclass=NullPool)
    event.listen(engine, "engine_disposed", lambda disposed: copy.remove())
    return engine


def _postgres(url: URL, wait: float) -> Database:
    # A standby may lag behind, and would serve what was deleted a moment ago.
    query = {"connect_timeout": "10", **url.query, "target_session_attrs": "primary"}
    full = url.set(drivername="postgresql+psycopg", query=query)
    try:
        # Pinged before each use: a server that was restarted has closed the connections that are kept.
        engine = create_engine(full, isolation_level="AUTOCOMMIT", pool_pre_ping=True)
    except ImportError as error:
        raise InputError(
            "a ledger in PostgreSQL needs psycopg, which is not installed: pip install 'fedsgt[postgres]'"
        ) from error
    limit = f"SET lock_timeout = {max(1, round(wait * 1000))}"  # 0 would mean for ever
    event.listen(engine, "connect", _on_connect("SET synchronous_commit = on", limit))
    return Database(engine, url.render_as_string(hide_password=True), None, None, wait)


def _on_connect(*statements: str) -> Callable[[Any, Any], None]:
    def run(connection: Any, record: Any) -> None:
        for statement in statements:
            connection.execute(statement)

    return run


def _make_file(file: Path, wait: float) -> None:
    """Make a database in WAL mode, whose readers and writers do not block each other."""
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=rwc", uri=True, timeout=wait)) as connection:
        deadline = time.monotonic() + wait
        while not _set_wal(connection):
            # SQLite does not wait by itself here when another process is doing the same.
            if time.monotonic() > deadline:
                raise LedgerError(f"cannot create ledger {file}: it is locked; {_ADVICE['locked']}")
            time.sleep(0.01)
    sync_folder(file.parent)


def _set_wal(connection: sqlite3.Connection) -> bool:
    try:
        return bool(connection.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",))
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            return False
        raise


def _identity(file: Path) -> tuple[int, int] | None:
    # A file that was replaced keeps its name: connections would go on with the old one, which is gone.
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _lock_number(name: str) -> int:
    # PostgreSQL names advisory locks by a signed number of 64 bits.
    code = hashlib.sha256(frames("fedsgt.ledger.lock.1", name)).digest()
    return int.from_bytes(code[:8], "big", signed=True)
