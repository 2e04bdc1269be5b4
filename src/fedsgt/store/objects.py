"""Named bytes, in a local folder or at a URL: their names, their operations and their errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from fedsgt.errors import InputError
from fedsgt.words import one_line

# No part starts with a dot: that refuses `..`, and leaves dotted names to files that are still being written.
_PART = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
_NAME = re.compile(rf"{_PART}(/{_PART})*")
_PREFIX = re.compile(rf"({_PART}/)*({_PART})?")


class StoreError(InputError):
    """The store cannot be read or written, or does not hold what it should."""


class Objects(Protocol):
    """Named bytes that are replaced as a whole; names are relative paths with `/`.

    A write or a deletion that has returned survives a power cut.
    """

    def read(self, name: str) -> bytes:
        """Return the object's bytes; raise `KeyError` if there is no such object."""

    def write(self, name: str, data: bytes) -> None:
        """Make or replace the object."""

    def delete(self, name: str) -> None:
        """Remove the object; one that is not there is fine."""

    def names(self, prefix: str = "") -> list[str]:
        """Return the names of all objects that start with `prefix`, in order."""

    def sweep(self, prefix: str = "") -> None:
        """Remove what interrupted writes of objects whose names start with `prefix` left behind."""


def is_name(name: str) -> bool:
    """Whether an object may have this name: a relative path of plain characters."""
    return _NAME.fullmatch(name) is not None


def check_name(name: str) -> None:
    """Refuse a name that is not one of an object, so that none leads out of the store."""
    if not is_name(name):
        raise InputError(
            f"object name {name!r} is not allowed; parts of letters, digits, `_`, `-` and, not in front, `.`"
            " are joined by `/`"
        )


def check_prefix(prefix: str) -> None:
    """Refuse a text that no object name can start with."""
    if not _PREFIX.fullmatch(prefix):
        raise InputError(f"prefix {prefix!r} is not allowed; it is how an object name starts")


@contextmanager
def reported(action: str, where: object, kind: type[Exception] = OSError) -> Iterator[None]:
    """Turn errors of this kind into a `StoreError` of one line that names the file."""
    try:
        yield
    except kind as error:
        # An OSError's own text repeats the file's name, which stands in front already.
        cause = (error.strerror if isinstance(error, OSError) else None) or one_line(error)
        raise StoreError(
            f"cannot {action} {where}: {' '.join(cause.split())}; the store needs room and permission there"
        ) from error
