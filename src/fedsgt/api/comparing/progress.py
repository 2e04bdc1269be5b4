"""How far a comparison has come, and the time that is left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from fedsgt.api.results.comparison import Point
from fedsgt.api.train import is_watched
from fedsgt.config import Config
from fedsgt.engine.events import ClientUpdated, Event, Listener, WorkBegun
from fedsgt.plans import make
from fedsgt.window import groups_used
from fedsgt.words import counted, shown_seconds

FORWARD = 0.3  # cost of predicting a record, if training on it costs 1
STEP = 1.0  # seconds that a deletion and its scoring take, until one was timed


@dataclass(frozen=True)
class Advance:
    """How far a comparison has come, for whoever shows it."""

    share: float
    """Share of the whole work that is done, from 0 to 1."""
    seconds_left: float | None
    """None until that can be said."""
    system: str
    seed: int
    point: Point | None
    """Result that was just found, if any."""

    def text(self) -> str:
        """Return the result and the time left in words."""
        words = f"{self.system}, seed {self.seed}"
        if self.point is not None:
            served = "nothing is served" if self.point.accuracy is None else f"{self.point.accuracy:.1%}"
            words += f", after {counted(self.point.request, 'request')}: {served}"
        return (
            words if self.seconds_left is None else f"{words}; about {shown_seconds(self.seconds_left)} left"
        )


Listening: TypeAlias = Callable[[Advance], None]
ComparisonProgress: TypeAlias = bool | Listening | None
"""True prints a line for each result on standard error, a function gets every `Advance`, False is silent.

None prints where a person looks: on a terminal or in a notebook.
"""


@dataclass(frozen=True)
class SystemWork:
    """Work of one system and seed, in records to train on."""

    training: float
    """Training, and the first scoring of all modules."""
    retraining: float
    """Training after each request that the policy asks for, on average."""

    @classmethod
    def of(cls, config: Config, records: int, tests: int) -> SystemWork:
        """Estimate the work on so many records and test records."""
        plan, training = config.plan, config.training
        made = make(
            plan.kind,
            config.grouping.groups,
            budget=plan.budget,
            passes=plan.passes,
            seed=plan.seed,
            shards=plan.shards,
            window=training.window,
        )
        epochs = training.rounds * training.epochs * records
        first = training.epochs * records if config.grouping.method == "updates" else 0
        whole = made.passes * epochs + first + len(made.modules) * tests * FORWARD
        if config.unlearning.retrain != "now":
            return cls(whole, 0.0)
        # A request hits one group, and what depends on it: a module of d groups is hit by d of them.
        costs = [(groups_used(module.depth, training.window), module.depth) for module in made.modules]
        hit = sum(cost * depth for cost, depth in costs) / made.groups
        return cls(whole, whole * hit / max(1, sum(cost for cost, _ in costs)))


@dataclass
class Meter:
    """Tells the share of the work that is done and the time left, which are estimated by two rates.

    Training takes time by the number of records, and a deletion with its scoring about the same each.
    """

    systems: Mapping[str, SystemWork]
    work: float
    """All records to train on; 0 if no system has a module."""
    steps: int
    """All deletions."""
    tell: Listening
    place: tuple[str, int] = ("", 0)
    """System and seed that are worked on."""
    done: float = 0.0
    steps_done: int = 0
    timed: tuple[float, float] = (0.0, 0.0)
    """Records that were trained on in this process, and the seconds that it took."""
    timed_steps: tuple[int, float] = (0, 0.0)
    """Deletions in this process, and the seconds that they took."""

    @classmethod
    def of(cls, systems: Mapping[str, SystemWork], requests: Sequence[int], tell: Listening) -> Meter:
        """Return the meter of these systems, with so many requests for each seed."""
        steps = sum(requests)
        work = sum(len(requests) * system.training + steps * system.retraining for system in systems.values())
        return cls(systems, work, steps * len(systems), tell)

    def skip(self, system: str, steps: int) -> None:
        """Count a system's training and deletions that an earlier call has done."""
        self.done += self.systems[system].training + steps * self.systems[system].retraining
        self.steps_done += steps

    def training(self, system: str) -> AbstractContextManager[Callable[[float], None]]:
        """Time a system's training; yield a function to call with the share that is done."""
        return self._timed(self.systems[system].training)

    def retraining(self, system: str) -> AbstractContextManager[Callable[[float], None]]:
        """Time a training after a request in the same way."""
        return self._timed(self.systems[system].retraining)

    @contextmanager
    def _timed(self, work: float) -> Iterator[Callable[[float], None]]:
        started, (records, seconds) = time.monotonic(), self.timed

        def advance(share: float) -> None:
            nonlocal started
            if not share:
                started = time.monotonic()  # loading and checking are not training
            if work:
                self.timed = records + share * work, seconds + time.monotonic() - started
            self._told(self.done + share * work)

        yield advance
        advance(1.0)
        self.done += work

    @contextmanager
    def step(self) -> Iterator[None]:
        """Time a deletion and its scoring; a training inside counts by itself."""
        started, trained = time.monotonic(), self.timed[1]
        yield
        spent = time.monotonic() - started - (self.timed[1] - trained)
        self.timed_steps = self.timed_steps[0] + 1, self.timed_steps[1] + spent
        self.steps_done += 1

    def found(self, point: Point) -> None:
        """Tell a result."""
        self._told(self.done, point)

    def _told(self, done: float, point: Point | None = None) -> None:
        deleted = self.steps_done / self.steps
        # Deletions are a tenth of the whole, which is a guess; training is the rest, by records. A comparison
        # of systems without modules trains nothing.
        share = 0.9 * done / self.work + 0.1 * deleted if self.work else deleted
        self.tell(Advance(min(1.0, share), self._seconds_left(done), *self.place, point))

    def _seconds_left(self, done: float) -> float | None:
        (records, seconds), (count, spent) = self.timed, self.timed_steps
        if not records and not count:
            return None
        training = (self.work - done) * (seconds / records if records else 0.0)
        each = spent / count if count else STEP
        return max(0.0, training) + (self.steps - self.steps_done) * each


def comparison_listener(progress: ComparisonProgress) -> Listening:
    """Return the function that is told how far a comparison has come."""
    if callable(progress):
        return progress
    shown = is_watched() if progress is None else progress

    def tell(advance: Advance) -> None:
        if shown and advance.point is not None:
            print(advance.text(), file=sys.stderr, flush=True)

    return tell


def share_told(advance: Callable[[float], None], scale: float = 1.0) -> Listener:
    """Return a listener of a training's events that tells the share of its records, times `scale`."""
    whole, done = 0, 0

    def listen(event: Event) -> None:
        nonlocal whole, done
        if isinstance(event, WorkBegun):
            whole, done = event.records, 0
            advance(0.0)
        elif isinstance(event, ClientUpdated) and whole:
            done += event.work
            advance(scale * done / whole)

    return listen
