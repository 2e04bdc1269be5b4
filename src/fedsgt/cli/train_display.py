"""How far a training is, for a person: bars with the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from fedsgt.cli.options import counted

if TYPE_CHECKING:
    from fedsgt.build.prepare import Prepared
    from fedsgt.build.targets import Target
    from fedsgt.engine.task import Result
    from fedsgt.store import Manifest


class Counts:
    """What there is to do and what is done of it: sequences, phases (modules), rounds, records."""

    def __init__(self, prepared: Prepared, missing: Sequence[Target]) -> None:
        run = prepared.run
        self.rounds_each = run.training.rounds
        self.modules, self.done = len(missing), 0
        self.rounds = len(missing) * run.training.rounds
        self.records = sum(prepared.records(target) for target in missing) * run.training.rounds
        self.sequences = [tuple(sequence) for sequence in prepared.plan.sequences]
        lacking = {target.groups for target in missing}
        self.finished = {path for path in self.sequences if path not in lacking}

    def module(self, groups: tuple[int, ...]) -> None:
        self.done += 1
        if groups in self.sequences:
            self.finished.add(groups)


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

    def begin(self, prepared: Prepared, missing: Sequence[Target]) -> None:
        counts = self.counts = Counts(prepared, missing)
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

    def round_done(self, target: Target, result: Result) -> None:
        self.progress.advance(self.bars["rounds"])

    def module_done(self, target: Target, manifest: Manifest) -> None:
        assert self.counts is not None
        self.counts.module(target.groups)
        self.progress.advance(self.bars["phases"])
        self.progress.update(self.bars["sequences"], completed=len(self.counts.finished))


class Lines:
    """A line for each module; the time left is by records, which is what costs."""

    def __init__(self) -> None:
        self.counts: Counts | None = None
        self.records, self.started = 0, time.monotonic()

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def checking(self, share: float) -> None:
        """Quick enough to need no line."""

    def begin(self, prepared: Prepared, missing: Sequence[Target]) -> None:
        counts = self.counts = Counts(prepared, missing)
        self.started = time.monotonic()
        if missing:
            self._say(
                f"training {counted(counts.modules, 'module')} of "
                f"{counted(len(counts.sequences), 'sequence')}, {counted(counts.rounds_each, 'round')} each"
            )

    def trained(self, records: int) -> None:
        self.records += records

    def round_done(self, target: Target, result: Result) -> None:
        if self.counts is not None and result.round < self.counts.rounds_each:
            self._say(f"  round {result.round} of groups {_names(target)}: loss {result.loss:.3f}")

    def module_done(self, target: Target, manifest: Manifest) -> None:
        assert self.counts is not None
        self.counts.module(target.groups)
        spent = time.monotonic() - self.started
        left = spent * (self.counts.records / max(self.records, 1) - 1)
        self._say(
            f"module {self.counts.done} of {self.counts.modules} (groups {_names(target)}): "
            f"loss {manifest.metrics['loss']:.3f}, about {max(left, 0):.0f} s left"
        )

    def _say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


def make_display() -> Bars | Lines:
    console = Console(stderr=True)
    return Bars(console) if console.is_terminal else Lines()


def _names(target: Target) -> str:
    return " ".join(map(str, target.groups))
