"""Tell of requests that were cut short, and of deletions that are in force and not complete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click
import typer

from fedsgt.errors import InputError
from fedsgt.words import one_line

if TYPE_CHECKING:
    from fedsgt.runs.folder import RunFolder
    from fedsgt.unlearning.recovery import Recovery

# Exit codes of a deletion; 0 is that of a complete one, and 2 of one that is not in force.
PENDING, UNKNOWN = 3, 4


def recover_and_tell(folder: RunFolder) -> Recovery:
    """Complete the requests that were cut short, and say on standard error what was done and what was not."""
    from fedsgt.certificates.certify import certificate_path
    from fedsgt.unlearning.recovery import recover

    found = recover(folder)
    lines = [
        f"completed request no. {position}, which had been interrupted; certificate "
        f"{certificate_path(folder, position)}"
        for position in found.completed
    ]
    lines += [f"request no. {work.position} is in force; {work.words()}" for work in found.pending]
    for line in (*lines, *found.key_changes()):
        typer.echo(f"fedsgt: {line}", err=True)
    return found


@contextmanager
def not_in_force(key: str | None) -> Iterator[None]:
    """Say with every error or stop that comes before acceptance that the deletion is not in force."""
    from fedsgt.unlearning.recovery import NOT_IN_FORCE, reason_of
    from fedsgt.unlearning.request import AlreadyDeleted
    from fedsgt.unlearning.unlearn import OutcomeUnknown, Stopped

    try:
        yield
    except Stopped:  # after acceptance, with a receipt
        raise
    except (KeyboardInterrupt, SystemExit, click.Abort):
        typer.echo(f"fedsgt: stopped; {NOT_IN_FORCE}", err=True)
        raise
    except OutcomeUnknown as error:
        typer.echo(f"fedsgt: {error}", err=True)
        raise typer.Exit(UNKNOWN) from None
    except AlreadyDeleted:  # its deletion is in force, by an earlier request
        raise
    except (InputError, OSError) as error:
        told = reason_of(error).removesuffix("; nothing was changed")
        # A request with the same key may have been accepted before, and nobody could look.
        words = NOT_IN_FORCE if key is None else "nothing was changed by this attempt"
        raise InputError(told if told.endswith(NOT_IN_FORCE) else f"{told}; {words}") from None


@contextmanager
def in_force(position: int) -> Iterator[None]:
    """End with exit code 3 if anything fails or stops after the request at this position was accepted."""
    try:
        yield
    except click.exceptions.Exit as end:
        if end.exit_code in (0, PENDING):
            raise
        _leave(position, "what followed it did not end well")
    except (KeyboardInterrupt, SystemExit, click.Abort):
        _leave(position, "what followed it was stopped")
    except (InputError, OSError, MemoryError) as error:
        _leave(position, f"what followed it failed: {one_line(error)}")


def _leave(position: int, what: str) -> None:
    with suppress(BrokenPipeError):  # the exit code says it, even if nobody reads the words
        typer.echo(f"fedsgt: the deletion is in force (request no. {position}); {what}", err=True)
    raise typer.Exit(PENDING) from None
