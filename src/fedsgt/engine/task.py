"""What passes between a build, an engine and its clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from fedsgt.files.tensors import Tensors

ReadModule: TypeAlias = Callable[[str], Tensors]


@dataclass(frozen=True)
class Task:
    """One round of one module: train on these slices of each client, on top of these frozen modules."""

    key: str
    parents: tuple[str, ...]
    """Keys of the modules below, root first."""
    slices: Mapping[str, tuple[int, ...]]
    """Client to its slices in the module's prefix; the engine sees no other data."""
    round: int = 1
    state: Tensors | None = field(default=None, repr=False)
    """What the round starts from; none in the first round, which starts fresh."""
    groups: tuple[int, ...] = ()
    """Prefix of the module, for events; training does not look at it."""


@dataclass(frozen=True)
class Update:
    """What a client sends back after its local training."""

    client: str
    state: Tensors = field(repr=False)
    records: int
    loss: float
    """Mean over the records of the last local epoch."""
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class Result:
    """A finished round: the clients' average, and who took part with how many records."""

    key: str
    round: int
    state: Tensors = field(repr=False)
    participants: dict[str, int]
    loss: float
    seconds: float = field(default=0.0, compare=False)


class RoundFailed(Exception):
    """A round that cannot be finished, and why; the engine has dropped it."""

    def __init__(self, key: str, cause: Exception) -> None:
        super().__init__(f"module {key[:12]}: {cause}")
        self.key, self.cause = key, cause


class Engine(Protocol):
    """Carries out tasks in any order and any parallelism; results depend on neither."""

    capacity: int
    """So many tasks at once keep it busy; more would only stand in the way of what becomes urgent."""

    def submit(self, task: Task) -> None:
        """Take on one round."""

    def wait(self) -> Result | None:
        """The next round that is finished, or none when only a client of one is.

        `RoundFailed` if one cannot be; a refused update is named by client, module and round.
        """

    def cancel(self, key: str) -> None:
        """Drop the round of this module that is under way, if there is one; nothing more comes of it."""

    def finish(self, state: Tensors) -> Tensors:
        """The module of a state after its last round."""

    def close(self) -> None:
        """Check that the backbone is what it was, and end."""
