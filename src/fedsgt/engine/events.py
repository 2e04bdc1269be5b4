"""Events of a training, and the stream that tells them to all listeners.

An event holds plain values only, so that it can be written as JSON and read in another process. Listeners
draw progress, write metrics or relay the event. None of them has a say in the training: its bytes are the
same whoever listens.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeAlias


@dataclass(frozen=True)
class WorkBegun:
    """Training begins; the amount of work is known."""

    modules: int
    """Number of modules to train."""
    rounds: int
    """Number of rounds of each module."""
    records: int
    """Number of records that an epoch trains on, summed over all rounds of all these modules."""
    sequences: tuple[tuple[int, ...], ...]
    """Sequences of the plan, each as its groups in order."""
    finished: tuple[tuple[int, ...], ...]
    """Sequences that lack no module."""
    different: int = 0
    """Number of different records among those to train on; 0 if it is not known."""
    at_once: int = 1
    """Number of clients' trainings that can be under way at the same time."""


@dataclass(frozen=True)
class DataChecked:
    """Another percent of the records was read and found usable."""

    share: float
    """Share of all records that are checked, from 0 to 1."""


@dataclass(frozen=True)
class ClientUpdated:
    """A client's update for one round of one module came in and is used."""

    module: str
    """Key of the module."""
    groups: tuple[int, ...]
    """Prefix of the module."""
    client: str
    round: int
    records: int
    """Number of the client's records in the groups that the module trains on."""
    seconds: float
    """Seconds that the local training took."""
    loss: float | None = None
    """Mean loss over the client's records; None for listeners that a deletion cannot reach.

    A loss is computed from the records. Only listeners whose files a deletion cleans may have it.
    """
    preparing: float = 0.0
    """Seconds before the local training, in which its records were prepared; most at first use."""
    used: int | None = None
    """Number of the records that an epoch uses, on average, if a window leaves some out."""

    @property
    def work(self) -> int:
        """Number of records that an epoch trains on."""
        return self.records if self.used is None else self.used


@dataclass(frozen=True)
class RoundFinished:
    """All updates of a round are averaged."""

    module: str
    groups: tuple[int, ...]
    round: int
    loss: float | None
    """Mean loss over the records of all clients that took part; None for listeners as above."""
    seconds: float
    """Seconds that all clients' local training took together."""


@dataclass(frozen=True)
class ModuleFinished:
    """A module is trained and stored."""

    module: str
    groups: tuple[int, ...]
    sha256: str
    """Hash of the stored tensors."""
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class ClientTrouble:
    """A client cannot take part, or its update is refused."""

    client: str
    what: str


@dataclass(frozen=True)
class StatisticsMade:
    """More statistics of clients' records are made, from which heads are solved."""

    made: int
    """Number of statistics that are made by now."""
    wanted: int
    """Number of statistics to make."""


@dataclass(frozen=True)
class Note:
    """A sentence for people, such as the reason for a wait."""

    text: str


Event: TypeAlias = (
    WorkBegun
    | DataChecked
    | ClientUpdated
    | RoundFinished
    | ModuleFinished
    | StatisticsMade
    | ClientTrouble
    | Note
)
Listener: TypeAlias = Callable[[Event], None]

# Files of older versions have these names, so they must not change.
KINDS: dict[type[Event], str] = {
    WorkBegun: "begun",
    DataChecked: "checked",
    ClientUpdated: "update",
    RoundFinished: "round",
    ModuleFinished: "module",
    StatisticsMade: "statistics",
    ClientTrouble: "trouble",
    Note: "note",
}
"""Name of each type of event in JSON; metrics files use the same names."""


class EventStream:
    """Hands each event to every listener, in the order in which they were given."""

    def __init__(self, *listeners: Listener) -> None:
        self.listeners = listeners

    def __call__(self, event: Event) -> None:
        # One after another in this thread: when the call returns, every listener has the event.
        for listener in self.listeners:
            listener(event)


def ignore(event: Event) -> None:
    """Listen and do nothing."""


def to_json(event: Event) -> dict[str, Any]:
    """Return the event as an object that `json` can write."""
    return {"event": KINDS[type(event)]} | {field.name: getattr(event, field.name) for field in fields(event)}


def from_json(line: Mapping[str, Any]) -> Event:
    """Return the event that `to_json` gave this object for."""
    types = {kind: event for event, kind in KINDS.items()}
    # Tuples, because events are compared and their groups looked up in sets.
    values = {name: _tuples(value) for name, value in line.items() if name != "event"}
    return types[line["event"]](**values)


def relay(path: Path) -> Listener:
    """Return a listener that appends each event to a file of JSON lines, for another process to read.

    It leaves losses out: no deletion looks into the file.
    """
    return lambda event: append_line(path, to_json(_without_loss(event)))


def _without_loss(event: Event) -> Event:
    match event:
        case ClientUpdated() | RoundFinished():
            return replace(event, loss=None)
        case ModuleFinished():
            return replace(event, metrics={})
    return event


def append_line(path: Path, line: Mapping[str, Any]) -> None:
    """Append one line of JSON to a file."""
    # The file is opened for each line: a deletion may have replaced it by one with fewer lines.
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _tuples(value: Any) -> Any:
    """Turn lists into tuples, which JSON has not, at every depth."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
