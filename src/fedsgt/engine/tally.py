"""Progress of a training, counted from its events, and each event as a line of text for logs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from fedsgt.engine.events import (
    ClientTrouble,
    ClientUpdated,
    Event,
    Listener,
    ModuleFinished,
    Note,
    RoundFinished,
    WorkBegun,
)
from fedsgt.words import counted


class Tally:
    """Counts finished modules, sequences and records; to be told every event."""

    def __init__(self) -> None:
        self.work = WorkBegun(0, 0, 0, (), ())  # until the real amount is told
        self.modules, self.records = 0, 0
        self.finished: set[tuple[int, ...]] = set()
        """Sequences that lack no module."""
        self.started = time.monotonic()

    def __call__(self, event: Event) -> None:
        match event:
            case WorkBegun():
                # The clock starts here, not with the program: loading and checking are not training.
                self.work, self.started = event, time.monotonic()
                self.finished = set(event.finished)
            case ClientUpdated():
                self.records += event.records
            case ModuleFinished():
                self.modules += 1
                if event.groups in self.work.sequences:
                    self.finished.add(event.groups)

    def seconds_left(self) -> float:
        """Estimate the remaining seconds by records, because they are what takes the time."""
        spent = time.monotonic() - self.started
        # At least one record, so that the estimate is defined before the first update.
        return max(0.0, spent * (self.work.records / max(self.records, 1) - 1))

    def line(self, event: Event) -> str | None:
        """Return one line of text about an event that was counted already; None if it needs no line."""
        match event:
            case WorkBegun(modules=modules) if modules:
                return (
                    f"training {counted(modules, 'module')} of "
                    f"{counted(len(event.sequences), 'sequence')}, {counted(event.rounds, 'round')} each"
                )
            # The last round of a module is told with the module.
            case RoundFinished() if event.round < self.work.rounds:
                done = "done" if event.loss is None else f"loss {event.loss:.3f}"
                return f"  round {event.round} of groups {_spaced(event.groups)}: {done}"
            case ModuleFinished():
                loss = f"loss {event.metrics['loss']:.3f}, " if event.metrics else ""
                return (
                    f"module {self.modules} of {self.work.modules} (groups {_spaced(event.groups)}): "
                    f"{loss}about {self.seconds_left():.0f} s left"
                )
            case ClientTrouble():
                return f"  client {event.client}: {event.what}"
            case Note():
                return f"  {event.text}"
        return None


def print_lines(tally: Tally, write: Callable[[str], object]) -> Listener:
    """Return a listener that counts each event and writes its line of text."""

    def listen(event: Event) -> None:
        tally(event)
        line = tally.line(event)
        if line is not None:
            write(line)

    return listen


def share_of(records: int, progress: Callable[[float], None]) -> Listener:
    """Return a listener that reports which share of so many records was trained on."""
    done = 0

    def listen(event: Event) -> None:
        nonlocal done
        if isinstance(event, ClientUpdated):
            done += event.records
            progress(done / records)

    return listen


def _spaced(groups: Sequence[int]) -> str:
    return " ".join(map(str, groups))
