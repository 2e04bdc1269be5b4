"""Arguments of the Python interface, checked: a wrong one is an `InputError` that names it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from fedsgt.api.train import AnyPath, given_path
from fedsgt.errors import InputError
from fedsgt.unlearning.request import Deletion


def deletions_of(
    client: str | None,
    records: Iterable[str] | None,
    slices: Iterable[int] | int | None,
    everything: bool,
    deletions: Sequence[Deletion] | None,
) -> list[Deletion]:
    """Return the deletions that the arguments name; exactly one way of naming them must be used."""
    ways = [records is not None, slices is not None, bool(everything)]
    if deletions is not None:
        if client is not None or any(ways):
            raise InputError("deletions stand alone; leave out client, records, slices and everything")
        several = _listed(deletions, "deletions")
        if not all(isinstance(one, Deletion) for one in several):
            raise InputError("deletions: each is a fedsgt.Deletion; nothing was changed")
        return list(several)
    if client is None or sum(ways) != 1:
        raise InputError(
            "give the client's name, and one of records=[...], slices=[...] and everything=True; nothing was "
            "changed"
        )
    if not isinstance(client, str):
        raise InputError(f"client is of type {type(client).__name__}; allowed: its name, a text")
    if records is not None:
        return [Deletion(client, records=_texts(records))]
    if slices is not None:
        numbers = (slices,) if isinstance(slices, int) else _listed(slices, "slices")
        if not all(type(number) is int for number in numbers):
            raise InputError(f"slices: {list(numbers)!r} are not all whole numbers; nothing was changed")
        return [Deletion(client, slices=numbers)]
    return [Deletion(client)]


def _texts(records: Iterable[str]) -> tuple[str, ...]:
    # A text is iterable too: its characters would pass for ids.
    if isinstance(records, str | bytes):
        raise InputError(f"records is one text, {records!r}; give a list of ids; nothing was changed")
    found = _listed(records, "records")
    for one in found:
        if not isinstance(one, str):
            raise InputError(
                f"records: the id {one!r} is a {type(one).__name__}; ids are texts; nothing was changed"
            )
    return found


def _listed(values: Iterable[Any], name: str) -> tuple[Any, ...]:
    try:
        return tuple(values)
    except TypeError:
        raise InputError(f"{name} is {values!r}; give a list; nothing was changed") from None


def paths_of(values: AnyPath | Sequence[AnyPath]) -> list[Path]:
    """Return one path or several, in full."""
    several = (values,) if isinstance(values, str | PathLike) else _listed(values, "against")
    return [given_path(place, "against") for place in several]


def check_text(value: str | None, name: str) -> None:
    """Raise if a value is given that is not a text."""
    if value is not None and not isinstance(value, str):
        raise InputError(f"{name} is of type {type(value).__name__}; allowed: a text; nothing was changed")


def whole_number(value: int, name: str) -> int:
    """Return a number that is whole and at least 1; raise if it is not."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InputError(f"{name} is {value!r}; allowed: a whole number of at least 1")
    return value
