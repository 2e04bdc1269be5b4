"""The files that hold a run's description: the one in force, and a new one on its way to replace it."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from fedsgt.errors import InputError
from fedsgt.runs.artefacts import DESCRIPTION, NEXT_DESCRIPTION
from fedsgt.runs.description import RESTORE, Description


def read_description(path: Path) -> Description:
    """Read the run's description from disk; whether it is the one in force is not checked."""
    here = (path / DESCRIPTION).exists() or not (path / NEXT_DESCRIPTION).exists()
    file = path / (DESCRIPTION if here else NEXT_DESCRIPTION)
    try:
        return _parsed(file.read_bytes(), str(path / DESCRIPTION))
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror or error})") from None


def find_description(path: Path, code: str) -> Description | None:
    """Return the description with this hash; None if neither file has it."""
    # The new one first: between two looks it may get the other's name, but never the other way round.
    for file in (path / NEXT_DESCRIPTION, path / DESCRIPTION):
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise InputError(f"{file}: cannot be read ({error.strerror or error})") from None
        if hashlib.sha256(data).hexdigest() == code:
            # Under one name, whichever file it is in, so that it stays the same object when it is renamed.
            return _parsed(data, str(path / DESCRIPTION))
    return None


# Opening a run reads the same text twice, and callers compare descriptions by identity.
@lru_cache(maxsize=8)
def _parsed(data: bytes, where: str) -> Description:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise InputError(f"{where}: not a run's description (it is not text in UTF-8); {RESTORE}") from None
    return Description.read(text, where)


def keys_in(file: Path) -> set[str]:
    """Return the keys of the modules in a description; none if it cannot be read."""
    try:
        return set(_parsed(file.read_bytes(), str(file)).keys.values())
    except (OSError, InputError):
        return set()


def description_stamps(path: Path) -> tuple[tuple[int, ...] | None, ...]:
    """Return numbers that change whenever one of the files of a description is replaced or written."""
    return tuple(_stamp(path / name) for name in (NEXT_DESCRIPTION, DESCRIPTION))


def _stamp(file: Path) -> tuple[int, ...] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    # The time of the last change too, which nobody can set back.
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size
