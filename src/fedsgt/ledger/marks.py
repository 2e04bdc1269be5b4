"""High-water marks: how far each run's ledger has come, kept outside of its folder.

A folder that is restored from a backup has an older ledger, which knows nothing of the deletions since; the
mark does. It holds positions and hashes only. A ledger in SQLite has its mark in the user's state folder, one
in PostgreSQL in a table of the same database.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

from fedsgt.errors import InputError
from fedsgt.files.durable import make_folder, replace_file, sync_folder
from fedsgt.files.formats import check_format
from fedsgt.files.locks import FileLock

FORMAT = 1
# Digits that are kept of a request's hash: a ledger of ten thousand requests still has a small mark.
SHORT = 16
_HASH = re.compile(r"[0-9a-f]{64}")

Stamp: TypeAlias = tuple[int, int, int] | None


@dataclass(frozen=True)
class Mark:
    """Last known entry of a run's ledger, and all deletion requests up to it."""

    position: int
    hash: str
    requests: Mapping[int, str] = field(default_factory=dict)
    """First digits of the hash of each request, by its position."""

    def to_text(self) -> str:
        """Return the text of the file, or of the table's column."""
        return json.dumps({"format": FORMAT, **asdict(self)}) + "\n"

    @classmethod
    def read(cls, text: str, where: object) -> Mark:
        """Parse a mark; `where` names the file in an error."""
        try:
            values = json.loads(text)
        except ValueError:
            values = None
        check_format(values, FORMAT, where)
        if not _is_mark(values):
            raise InputError(
                f"{where}: not the mark of a ledger; restore this file from a backup, or remove it: then an "
                "older ledger of this run is not noticed; nothing was changed"
            )
        return cls(values["position"], values["hash"], {int(key): h for key, h in values["requests"].items()})


def _is_mark(values: Any) -> bool:
    return (
        isinstance(values, dict)
        and values.keys() == {"format", "position", "hash", "requests"}
        and type(values["position"]) is int
        and isinstance(values["hash"], str)
        and _HASH.fullmatch(values["hash"]) is not None
        and isinstance(values["requests"], dict)
        and all(key.isdecimal() and isinstance(value, str) for key, value in values["requests"].items())
    )


def state_folder() -> Path:
    """Return the folder for what is kept outside of runs: `FEDSGT_STATE`, or the user's state folder."""
    if given := os.environ.get("FEDSGT_STATE"):
        return Path(given).expanduser().absolute()
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser().absolute() / "fedsgt"


class MarkFile:
    """Mark of one run in the user's state folder."""

    def __init__(self, run: str) -> None:
        # Ids are hexadecimal digits; any other text must not lead out of the folder either.
        self.path = state_folder() / "marks" / f"{quote(run, safe='')}.json"

    def stamp(self) -> Stamp:
        """Return numbers that change whenever the mark is replaced; None if there is none."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def read(self) -> Mark | None:
        """Return the mark; None if there is none, or none that this user may read."""
        try:
            return Mark.read(self.path.read_text(encoding="utf-8", errors="replace"), self.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            warn_once(self.path, error)
            return None

    def change(self, new: Callable[[Mark | None], Mark | None]) -> None:
        """Replace the mark by what `new` makes of it, durably; None leaves it as it is.

        Without a writable place there is one warning, and no mark.
        """
        # Looked at without the lock first: most openings have nothing to write.
        if new(self.read()) is None:
            return
        try:
            with self._locked():
                wanted = new(self.read())
                if wanted is not None:
                    replace_file(self.path, wanted.to_text().encode())
                    sync_folder(self.path.parent)
        except OSError as error:
            warn_once(self.path, error)

    def forget(self) -> None:
        """Remove the mark of a run whose folder is removed for good, a temporary one, say."""
        for path in (self.path, self.path.with_suffix(".lock")):
            path.unlink(missing_ok=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        make_folder(self.path.parent, 0o700)
        # Beside the mark, which is replaced as a whole: a lock on the old file would hold nobody off.
        with FileLock(self.path.with_suffix(".lock")).held():
            yield


_warned: set[str] = set()


def warn_once(place: object, error: Exception) -> None:
    """Warn on standard error, once in a process, that an older ledger would not be noticed."""
    reason = getattr(error, "strerror", None) or error
    if not _warned:
        _warned.add(str(place))
        print(
            f"fedsgt: warning: {place} cannot be written or read ({reason}), so a run that is restored from "
            "an old backup would not be noticed; set FEDSGT_STATE to a folder of yours",
            file=sys.stderr,
            flush=True,
        )
