"""Errors that people see: what was wrong, where, and what is allowed, in one line for each mistake."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self


class InputError(ValueError):
    """Something given from outside is wrong; the command line prints the message alone and exits with 2."""

    mistakes: tuple[str, ...] = ()
    """All mistakes, a line each, if there are several."""

    @classmethod
    def of(cls, where: str, mistakes: Sequence[str]) -> Self:
        """Return one error of all mistakes: one is told in a line, several in a line each below the first."""
        if len(mistakes) == 1:
            return cls(f"{where}: {mistakes[0]}" if where else mistakes[0])
        head = f"{where}: {len(mistakes)} mistakes" if where else f"{len(mistakes)} mistakes"
        error = cls("\n  ".join([head, *mistakes]))
        error.mistakes = tuple(mistakes)
        return error

    def lines(self) -> list[str]:
        """Return the lines to show; a line break inside a mistake, such as in a file's name, starts none."""
        text = str(self)
        if not self.mistakes:
            return [text]
        return [text.partition("\n")[0], *(f"  {mistake}" for mistake in self.mistakes)]


def told_by(check: Callable[[], object]) -> list[str]:
    """Return what a check says if it raises `InputError`; nothing if it does not."""
    try:
        check()
    except InputError as error:
        return list(error.mistakes) or [str(error)]
    return []


class BackboneChanged(InputError, RuntimeError):
    """The frozen backbone was modified; everything trained since must be discarded."""


class ShareableError(InputError):
    """Error on a client's machine whose message names none of its records, so that the server may see it."""
