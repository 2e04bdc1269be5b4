"""Progress of a training on standard error: bars with the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from fedsgt.cli.views.progress import TimeLeftColumn
from fedsgt.engine.events import (
    ClientTrouble,
    ClientUpdated,
    DataChecked,
    Event,
    ModuleFinished,
    Note,
    RoundFinished,
    StatisticsMade,
    WorkBegun,
)
from fedsgt.engine.tally import Tally, print_lines


class Bars:
    """Four bars: sequences, phases (modules), rounds, and records with the time left."""

    def __init__(self, console: Console) -> None:
        columns = (
            TextColumn("{task.description:<10}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeLeftColumn(),
        )
        # The bars vanish at the end, where a summary takes their place.
        self.progress = Progress(*columns, console=console, transient=True)
        self.bars: dict[str, TaskID] = {}
        self.tally = Tally()

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def __call__(self, event: Event) -> None:
        # The tally comes first: the bars below show its numbers.
        self.tally(event)
        match event:
            case DataChecked():
                self._checked(event.share)
            case WorkBegun():
                self._begin(event)
            case ClientUpdated():
                self.progress.advance(self.bars["records"], event.work)
            case RoundFinished():
                self.progress.advance(self.bars["rounds"])
            case ModuleFinished():
                self.progress.advance(self.bars["phases"])
                self.progress.update(self.bars["sequences"], completed=len(self.tally.finished))
            case StatisticsMade():
                self._made(event)
            case ClientTrouble():
                self._print(f"client {event.client}: {event.what}")
            case Note():
                self._print(event.text)

    def _checked(self, share: float) -> None:
        if "checking" not in self.bars:
            left = self.tally.checking.left
            self.bars["checking"] = self.progress.add_task("checking", total=100, left=left)
        self.progress.update(self.bars["checking"], completed=int(100 * share), visible=share < 1)

    def _made(self, event: StatisticsMade) -> None:
        self.tally.making.told(event.made / event.wanted)
        if "statistics" not in self.bars:
            left = self.tally.making.left
            self.bars["statistics"] = self.progress.add_task("statistics", total=event.wanted, left=left)
        self.progress.update(self.bars["statistics"], completed=event.made, total=event.wanted)

    def _begin(self, work: WorkBegun) -> None:
        totals = {
            "sequences": len(work.sequences),
            "phases": work.modules,
            "rounds": work.modules * work.rounds,
            "records": work.records,
        }
        for name, total in totals.items():
            left = self.tally.time.left if name == "records" else None  # one estimate, of the whole
            self.bars[name] = self.progress.add_task(name, total=total, left=left)
        self.progress.update(self.bars["sequences"], completed=len(work.finished))

    def _print(self, text: str) -> None:
        # Others' words: rich must not take brackets in them for markup.
        self.progress.console.print(text, markup=False, highlight=False)


class PlainLines:
    """A line for each module, and for each round but its last."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.listen = print_lines(self.tally, lambda line: print(line, file=sys.stderr, flush=True))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def __call__(self, event: Event) -> None:
        self.listen(event)


def training_view() -> Bars | PlainLines:
    """Return bars if standard error is a terminal, else plain lines."""
    console = Console(stderr=True)
    return Bars(console) if console.is_terminal else PlainLines()
