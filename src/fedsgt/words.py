"""Numbers, errors and texts from outside, as they are said to people."""

from __future__ import annotations

from typing import TYPE_CHECKING

# Imported for a type hint only: the quickest commands import this module, and pydantic is slow to import.
if TYPE_CHECKING:
    from pydantic import ValidationError

LONGEST_MESSAGE = 500
"""Most characters that are shown of a message from another machine."""
LONGEST_PLACE = 200
"""Most characters that are shown of a key in a JSON text."""


def counted(number: int, thing: str) -> str:
    """Return "1 epoch", "80 records"; `thing` is a word whose plural ends in s."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def counted_range(least: int, most: int, thing: str) -> str:
    """Return "70 to 80 records", or "80 records" if both are the same."""
    return counted(most, thing) if least == most else f"{least} to {counted(most, thing)}"


def counted_passes(passes: float) -> str:
    """Return "1 pass", "5.5 passes"."""
    return "1 pass" if passes == 1 else f"{passes:g} passes"


def shown_bytes(count: float) -> str:
    """Return "2.4 MB", with three digits; the units count in thousands."""
    for unit, step in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= step:
            return f"{count / step:.3g} {unit}" if count < 1000 * step else f"{count / step:,.0f} {unit}"
    return f"{count:.0f} B"


def shown_seconds(seconds: float) -> str:
    """Return "45 s", "12 min", "2.5 h"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def one_line(error: Exception) -> str:
    """Return another package's message without its line breaks, or the error's type if it says nothing."""
    return " ".join(str(error).split()) or type(error).__name__


def first_problem(error: ValidationError, whole: str) -> str:
    """Return the first thing that is wrong with a JSON text: its place, or `whole` for all of it, and why."""
    first = error.errors()[0]
    # Keys stand in the text itself, so they may be of any length and any characters.
    place = printable(".".join(map(str, first["loc"])), LONGEST_PLACE) or whole
    return printable(f"{place}: {first['msg'].removeprefix('Value error, ')}")


def printable(text: object, limit: int | None = None) -> str:
    r"""Return the text with control characters written as `\x1b`, cut after `limit` characters.

    A text from a file or from another machine must not steer the terminal that shows it, nor break a line.
    """
    # Cut before as well: a text of a gigabyte need not be gone through.
    shown = (letter if letter.isprintable() else ascii(letter)[1:-1] for letter in str(text)[:limit])
    return "".join(shown)[:limit]
