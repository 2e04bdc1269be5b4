"""What a training tells whoever watches it: plain values, so that it can be told from another process."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from fedsgt.words import counted


@dataclass(frozen=True)
class Work:
    """What there is to do."""

    modules: int
    rounds: int
    """Of each module."""
    records: int
    """Trained on in all rounds of all these modules together."""
    sequences: Sequence[Sequence[int]]
    finished: Sequence[Sequence[int]]
    """Those of them that lack nothing."""


class Display(Protocol):
    """Shows a person how far it is."""

    def checking(self, share: float) -> None:
        """So much of the data is checked."""

    def begin(self, work: Work) -> None: ...

    def trained(self, records: int) -> None:
        """A client has trained on so many records."""

    def round_done(self, groups: tuple[int, ...], number: int, loss: float) -> None: ...

    def module_done(self, groups: tuple[int, ...], loss: float) -> None: ...

    def trouble(self, client: str, what: str) -> None:
        """A client cannot or may not take part."""

    def note(self, text: str) -> None:
        """Why nothing else is to be seen for a while."""


class Counts:
    """What there is to do and what is done of it: sequences, phases (modules), rounds, records."""

    def __init__(self, work: Work) -> None:
        self.rounds_each = work.rounds
        self.modules, self.done = work.modules, 0
        self.rounds = work.modules * work.rounds
        self.records = work.records
        self.sequences = [tuple(sequence) for sequence in work.sequences]
        self.finished = {tuple(sequence) for sequence in work.finished}

    def module(self, groups: tuple[int, ...]) -> None:
        self.done += 1
        if groups in self.sequences:
            self.finished.add(groups)


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

    def begin(self, work: Work) -> None:
        counts = self.counts = Counts(work)
        self.started = time.monotonic()
        if work.modules:
            self._say(
                f"training {counted(counts.modules, 'module')} of "
                f"{counted(len(counts.sequences), 'sequence')}, {counted(counts.rounds_each, 'round')} each"
            )

    def trained(self, records: int) -> None:
        self.records += records

    def note(self, text: str) -> None:
        self._say(f"  {text}")

    def trouble(self, client: str, what: str) -> None:
        self._say(f"  client {client}: {what}")

    def round_done(self, groups: tuple[int, ...], number: int, loss: float) -> None:
        if self.counts is not None and number < self.counts.rounds_each:
            self._say(f"  round {number} of groups {_names(groups)}: loss {loss:.3f}")

    def module_done(self, groups: tuple[int, ...], loss: float) -> None:
        assert self.counts is not None
        self.counts.module(groups)
        spent = time.monotonic() - self.started
        left = spent * (self.counts.records / max(self.records, 1) - 1)
        self._say(
            f"module {self.counts.done} of {self.counts.modules} (groups {_names(groups)}): "
            f"loss {loss:.3f}, about {max(left, 0):.0f} s left"
        )

    def say(self, event: str, **told: Any) -> None:
        """What is no part of a training."""
        if told:
            self._say(f"{event}: {', '.join(map(str, told.values()))}")

    def _say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


class Relay:
    """Writes all that it is told into a file, a line of JSON each, for `replay` in another process."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def checking(self, share: float) -> None: ...

    def begin(self, work: Work) -> None:
        self.say("begin", work=asdict(work))

    def trained(self, records: int) -> None:
        self.say("trained", records=records)

    def round_done(self, groups: tuple[int, ...], number: int, loss: float) -> None:
        self.say("round_done", groups=groups, number=number, loss=loss)

    def module_done(self, groups: tuple[int, ...], loss: float) -> None:
        self.say("module_done", groups=groups, loss=loss)

    def trouble(self, client: str, what: str) -> None:
        self.say("trouble", client=client, what=what)

    def note(self, text: str) -> None:
        self.say("note", text=text)

    def say(self, event: str, **told: Any) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"event": event, **told}) + "\n")


def replay(line: Mapping[str, Any], display: Display) -> None:
    """Tell a display what a relay was told; lines of other kinds are for others."""
    told = {name: value for name, value in line.items() if name != "event"}
    if "groups" in told:
        told["groups"] = tuple(told["groups"])
    match line["event"]:
        case "begin":
            display.begin(Work(**told["work"]))
        case "trained":
            display.trained(**told)
        case "round_done":
            display.round_done(**told)
        case "module_done":
            display.module_done(**told)
        case "trouble":
            display.trouble(**told)
        case "note":
            display.note(**told)


def _names(groups: tuple[int, ...]) -> str:
    return " ".join(map(str, groups))
