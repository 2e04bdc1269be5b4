"""Progress of a training, counted from its events, and each event as a line of text for logs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fedsgt.engine.events import (
    ClientTrouble,
    ClientUpdated,
    DataChecked,
    Event,
    Listener,
    ModuleFinished,
    Note,
    RoundFinished,
    StatisticsMade,
    WorkBegun,
)
from fedsgt.engine.time_left import ShareTime, TrainingTime
from fedsgt.words import counted, shown_seconds

LONG_CHECK = 10.0  # seconds; a shorter check of the records needs no line


class Tally:
    """Counts finished modules, sequences and records; to be told every event."""

    def __init__(self) -> None:
        self.work = WorkBegun(0, 0, 0, (), ())  # until the real amount is told
        self.modules, self.records = 0, 0
        self.finished: set[tuple[int, ...]] = set()
        """Sequences that lack no module."""
        self.time, self.checking = TrainingTime(self.work), ShareTime()
        self.making = ShareTime()
        self.statistics = 0
        """Number of statistics that were made."""
        self._checked = self._made = 0

    def __call__(self, event: Event) -> None:
        match event:
            case DataChecked():
                self.checking.told(event.share)
            case WorkBegun():
                self.work, self.time = event, TrainingTime(event)
                self.finished = set(event.finished)
            case ClientUpdated():
                self.records += event.work
                self.time.updated(event)
            case RoundFinished():
                self.time.round_finished(event)
            case ModuleFinished():
                self.modules += 1
                if event.groups in self.work.sequences:
                    self.finished.add(event.groups)
            case StatisticsMade():
                self.statistics = event.made

    def seconds_left(self) -> float | None:
        """Estimate the remaining seconds; None until the first update."""
        return self.time.left.now()

    def line(self, event: Event) -> str | None:
        """Return one line of text about an event that was counted already; None if it needs no line."""
        line = None
        match event:
            case DataChecked():
                line = self._checking_line(event.share)
            case WorkBegun(modules=modules) if modules:
                line = (
                    f"training {counted(modules, 'module')} of "
                    f"{counted(len(event.sequences), 'sequence')}, {counted(event.rounds, 'round')} each"
                )
            # The last round of a module is told with the module.
            case RoundFinished() if event.round < self.work.rounds:
                done = "done" if event.loss is None else f"loss {event.loss:.3f}"
                line = f"  round {event.round} of groups {_spaced(event.groups)}: {done}"
            case ModuleFinished():
                line = self._module_line(event)
            case StatisticsMade():
                line = self._statistics_line(event)
            case ClientTrouble():
                line = f"  client {event.client}: {event.what}"
            case Note():
                line = f"  {event.text}"
        return line

    def _module_line(self, event: ModuleFinished) -> str:
        said = [f"loss {event.metrics['loss']:.3f}"] if event.metrics else []
        left = self.seconds_left()
        if left is not None:
            said.append(f"about {shown_seconds(left)} left")
        place = f"module {self.modules} of {self.work.modules} (groups {_spaced(event.groups)})"
        return f"{place}: {', '.join(said) or 'done'}"

    def _statistics_line(self, event: StatisticsMade) -> str | None:
        """Return a line at the beginning and after each quarter of the statistics."""
        self.making.told(event.made / event.wanted)
        quarter = event.made * 4 // event.wanted
        if event.made and quarter == self._made:
            return None
        self._made = quarter
        left = self.making.left.now()
        soon = "" if left is None or event.made == event.wanted else f", about {shown_seconds(left)} left"
        return f"statistics for heads: {event.made} of {event.wanted}{soon}"

    def _checking_line(self, share: float) -> str | None:
        """Return a line after each quarter of the records; None if the rest will take no time."""
        quarter, left = int(share * 4), self.checking.left.now()
        if quarter == self._checked or left is None or left < LONG_CHECK:
            return None
        self._checked = quarter
        return f"checking records: {share:.0%}, about {shown_seconds(left)} left"


def print_lines(tally: Tally, write: Callable[[str], object]) -> Listener:
    """Return a listener that counts each event and writes its line of text."""

    def listen(event: Event) -> None:
        tally(event)
        line = tally.line(event)
        if line is not None:
            write(line)

    return listen


def share_of(records: int, progress: Callable[[float], None], different: int = 0) -> Listener:
    """Return a listener that reports which share of the training on so many records is done."""
    time = TrainingTime(WorkBegun(0, 0, records, (), (), different))

    def listen(event: Event) -> None:
        if isinstance(event, ClientUpdated):
            time.updated(event)
            progress(time.share)

    return listen


def _spaced(groups: Sequence[int]) -> str:
    return " ".join(map(str, groups))
