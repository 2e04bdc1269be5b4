"""What objects may be called, and what is said when a store cannot be read or written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from fedsgt.errors import InputError

# No part starts with a dot: that refuses `..` and leaves dotted names to files that are still being written.
_PART = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
_NAME = re.compile(rf"{_PART}(/{_PART})*")
_PREFIX = re.compile(rf"({_PART}/)*({_PART})?")
_KEY = re.compile(r"[0-9a-f]{64}")


class StoreError(InputError):
    """The store cannot do what was asked: no room, no permission, no connection, or not what it should be."""


def is_name(name: str) -> bool:
    """Whether an object may be called so: a relative path of plain characters."""
    return _NAME.fullmatch(name) is not None


def check_name(name: str) -> None:
    """An error for a name that might lead out of the store."""
    if not is_name(name):
        raise InputError(
            f"object name {name!r} is not allowed; parts of letters, digits, `_`, `-` and, not in front, `.`"
            " are joined by `/`"
        )


def check_prefix(prefix: str) -> None:
    """An error for a text that no name can start with."""
    if not _PREFIX.fullmatch(prefix):
        raise InputError(f"prefix {prefix!r} is not allowed; it is how an object name starts")


def is_key(key: str) -> bool:
    """Whether this is the form of a module's key."""
    return _KEY.fullmatch(key) is not None


def check_key(key: str) -> str:
    """The key itself, if it is one; it becomes part of a path."""
    if not isinstance(key, str) or not is_key(key):
        raise InputError(f"module key {key!r} is not allowed; it is 64 lower-case hexadecimal digits")
    return key


@contextmanager
def reported(action: str, where: object, kind: type[Exception] = OSError) -> Iterator[None]:
    """Turns errors of this kind into one line that names the file."""
    try:
        yield
    except kind as error:
        cause = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        raise StoreError(
            f"cannot {action} {where}: {' '.join(cause.split())}; the store needs room and permission there"
        ) from error
