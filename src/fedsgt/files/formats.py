"""Format numbers of what is kept, and the refusal of newer ones."""

from __future__ import annotations

from typing import Any

from fedsgt.errors import InputError


class NewerFormat(InputError):
    """A file was written by a newer version of this package, which may mean something else by it."""


def check_format(values: Any, known: int, where: object) -> None:
    """Raise if `values`, read from JSON, has a `format` above `known`; other mistakes are for the reader."""
    found = values.get("format") if isinstance(values, dict) else None
    if type(found) is int and found > known:
        raise NewerFormat(
            f"{where}: it was made by a newer version of fedsgt (format {found}; this one knows up to "
            f"{known}); update fedsgt; nothing was changed"
        )
