"""How far a training is, for a person: bars with the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from fedsgt.build.display import Counts, Lines, Work


class Bars:
    """Four bars: sequences, phases, rounds, and records with the time left."""

    def __init__(self, console: Console) -> None:
        columns = (
            TextColumn("{task.description:<10}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        self.progress = Progress(*columns, console=console, transient=True)
        self.bars: dict[str, TaskID] = {}
        self.counts: Counts | None = None

    def __enter__(self) -> Bars:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def checking(self, share: float) -> None:
        if "checking" not in self.bars:
            self.bars["checking"] = self.progress.add_task("checking", total=100)
        self.progress.update(self.bars["checking"], completed=int(100 * share), visible=share < 1)

    def begin(self, work: Work) -> None:
        counts = self.counts = Counts(work)
        totals = {
            "sequences": len(counts.sequences),
            "phases": counts.modules,
            "rounds": counts.rounds,
            "records": counts.records,
        }
        for name, total in totals.items():
            self.bars[name] = self.progress.add_task(name, total=total)
        self.progress.update(self.bars["sequences"], completed=len(counts.finished))

    def trained(self, records: int) -> None:
        self.progress.advance(self.bars["records"], records)

    def note(self, text: str) -> None:
        self.progress.console.print(text, markup=False, highlight=False)

    def trouble(self, client: str, what: str) -> None:
        self.progress.console.print(f"client {client}: {what}", markup=False, highlight=False)

    def round_done(self, groups: tuple[int, ...], number: int, loss: float) -> None:
        self.progress.advance(self.bars["rounds"])

    def module_done(self, groups: tuple[int, ...], loss: float) -> None:
        assert self.counts is not None
        self.counts.module(groups)
        self.progress.advance(self.bars["phases"])
        self.progress.update(self.bars["sequences"], completed=len(self.counts.finished))


def make_display() -> Bars | Lines:
    console = Console(stderr=True)
    return Bars(console) if console.is_terminal else Lines()
