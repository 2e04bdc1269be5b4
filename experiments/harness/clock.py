"""Time at which each module of a training was finished: in CPU seconds, and in records learnt."""

from __future__ import annotations

import time
from dataclasses import dataclass

from experiments.harness.bench import Prefix
from fedsgt.engine.events import ClientUpdated, Event, ModuleFinished, WorkBegun


@dataclass(frozen=True)
class ModuleTime:
    """Time at which a module was finished."""

    groups: Prefix
    seconds: float
    """CPU seconds of this process since training began."""
    records: int
    """Number of records learnt until then, each counted as often as clients trained on it."""


class Clock:
    """A listener for runs without workers: all that they do is this process's CPU time."""

    def __init__(self) -> None:
        self.started, self.records = time.process_time(), 0
        self.events: list[ModuleTime] = []

    def __call__(self, event: Event) -> None:
        match event:
            case WorkBegun():
                self.started = time.process_time()
            case ClientUpdated():
                self.records += event.records
            case ModuleFinished():
                spent = time.process_time() - self.started
                self.events.append(ModuleTime(event.groups, spent, self.records))
