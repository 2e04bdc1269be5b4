"""When a training had finished which module: by CPU time, as machines are shared, and by records learnt."""

from __future__ import annotations

import time
from dataclasses import dataclass

from experiments.harness.bench import Prefix, Silent
from fedsgt.build.display import Work


@dataclass(frozen=True)
class Event:
    """A module is there."""

    groups: Prefix
    seconds: float
    """Of this process since training began."""
    records: int
    """Learnt from until then, each as often as clients were given it."""


class Clock(Silent):
    """A display for runs without workers: all that they do is this process's CPU time."""

    def __init__(self) -> None:
        self.started, self.records = time.process_time(), 0
        self.events: list[Event] = []

    def begin(self, work: Work) -> None:
        self.started = time.process_time()

    def trained(self, records: int) -> None:
        self.records += records

    def module_done(self, groups: Prefix, loss: float) -> None:
        self.events.append(Event(groups, time.process_time() - self.started, self.records))
