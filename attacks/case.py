"""One case of a campaign: what it counts, what it found broken, and its own random numbers."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from attacks.children import Outcome


@dataclass(frozen=True)
class Broken:
    """A promise that was not kept."""

    case: str
    seed: int
    what: str
    history: tuple[str, ...] = ()
    """Steps done to the run, oldest first."""

    @property
    def repeat(self) -> str:
        """Command that runs the case alone."""
        return f"python -m attacks {self.case} --seed {self.seed}"


class Abandoned(Exception):
    """The case cannot go on, because nothing can be learnt from its run any more."""


@dataclass
class Case:
    """A case; all that it draws follows from its name and the seed, so that it can be repeated alone."""

    name: str
    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    broken: list[Broken] = field(default_factory=list)
    history: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(f"{self.seed}/{self.name}")

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def note(self, what: str) -> None:
        """Add a line to the history that is shown with whatever breaks later."""
        self.history.append(what)

    def expect(self, holds: bool, what: str) -> bool:
        """Count a check; if it does not hold, keep what was broken and how it came to it."""
        self.counts["checks"] += 1
        line = " ".join(what.split())[:600]  # long lists of hashes say nothing on a page of counts
        if not holds and all(line != known.what for known in self.broken):
            self.broken.append(Broken(self.name, self.seed, line, tuple(self.history[-40:])))
        return holds

    def value(self, outcome: Outcome, what: str) -> Any:
        """Return what a child returned; a child that should have come to its end and did not is an end."""
        if not self.expect(outcome.trouble is None and not outcome.killed, f"{what}: {outcome.trouble}"):
            if outcome.crash:
                self.note(outcome.crash)
            raise Abandoned
        return outcome.value
