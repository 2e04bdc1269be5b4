"""Tasks, updates and results, which a build, an engine and its clients hand to each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsgt.files.tensors import Tensors
from fedsgt.stack.statistics import Statistic

ReadModule: TypeAlias = Callable[[str], Tensors]


@dataclass(frozen=True)
class Task:
    """One round of one module: train on these slices of each client, on top of these frozen modules."""

    key: str
    parents: tuple[str, ...]
    """Keys of the modules below, root first."""
    slices: Mapping[str, tuple[int, ...]]
    """Slices of each client in the module's prefix; the engine sees no other data."""
    round: int = 1
    state: Tensors | None = field(default=None, repr=False)
    """State that the round starts from; None in the first round, which starts from a fresh module."""
    groups: tuple[int, ...] = ()
    """Prefix of the module, for events; training does not look at it."""


@dataclass(frozen=True)
class Update:
    """A client's answer after its local training."""

    client: str
    state: Tensors = field(repr=False)
    records: int
    """Number of records that it has in the slices of the task; a window may use fewer of them."""
    loss: float
    """Mean loss over the records of the last local epoch that used any; 0 if none did."""
    # Left out of comparisons, because equal trainings give equal updates but take different times.
    seconds: float = field(default=0.0, compare=False)
    preparing: float = field(default=0.0, compare=False)
    """Seconds before the training, in which its records were read, and run through frozen lower layers."""


@dataclass(frozen=True)
class StatisticTask:
    """The statistic of a client's records in these slices, under a chain of modules; none is the backbone."""

    chain: tuple[str, ...]
    """Keys of the chain's modules, root first."""
    client: str
    slices: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Outputs:
    """Outputs of one forward pass over some records under a chain of modules, a row for each record."""

    probabilities: NDArray[np.float32]
    """Class probabilities of the head that was trained; all alike for a chain without modules."""
    features: NDArray[np.float32]
    """Features that a solved head takes."""


@dataclass(frozen=True)
class Result:
    """A finished round: the clients' average."""

    key: str
    round: int
    state: Tensors = field(repr=False)
    participants: dict[str, int]
    """Number of records of each client that took part."""
    loss: float
    seconds: float = field(default=0.0, compare=False)


class RoundFailed(Exception):
    """A round cannot be finished, for the given cause; the engine has dropped it."""

    def __init__(self, key: str, cause: Exception) -> None:
        super().__init__(f"module {key[:12]}: {cause}")
        self.key, self.cause = key, cause


class Engine(Protocol):
    """Carries out tasks, in any order and in parallel; results depend on neither."""

    capacity: int
    """Number of tasks that keep the engine busy; more would only delay tasks that become urgent later."""

    def submit(self, task: Task) -> None:
        """Accept one round, to be carried out in its turn."""

    def wait(self) -> Result | None:
        """Wait for a client, and return the result if it was the last one of a round, else None.

        Raises `RoundFailed` if a round cannot be finished; a refused update is named by client, module and
        round.
        """

    def statistics(self, tasks: Sequence[StatisticTask]) -> Iterator[tuple[StatisticTask, Statistic]]:
        """Yield each task's statistic as it arrives, in any order; take all of them before `wait` is called.

        A client that takes no part, or whose statistic is refused, is told as `ClientTrouble` and left out.
        """

    def cancel(self, key: str) -> None:
        """Drop the round of this module that is under way, if there is one; its result never comes."""

    def finish(self, state: Tensors) -> Tensors:
        """Return the finished module of the state after its last round."""

    def close(self) -> None:
        """Check that the backbone was not modified, and end."""
