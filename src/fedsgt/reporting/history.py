"""What happened to a run so far, from its ledger: requests one by one, and what was live after each.

How accurate the run was at the time is nowhere kept: such figures would be made of data that is deleted now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

from fedsgt.ledger.kinds import Kind
from fedsgt.ledger.ledger import Entry
from fedsgt.plans.plan import Prefix
from fedsgt.runs.state import Live


@dataclass(frozen=True)
class Level:
    """How much was live: modules, and groups behind the longest live prefix; none where nobody knows."""

    modules: int | None
    groups: int | None


@dataclass(frozen=True)
class Served:
    """A request, and what it left."""

    position: int
    time: str
    parts: list[dict[str, Any]]
    """For each client: scope, slices, and how many records."""
    groups: list[int]
    modules_died: int
    complete: bool
    """Whether the bytes that it condemned are destroyed."""
    after: Level

    @property
    def deleted(self) -> str:
        """How much it was about, in words."""
        found = []
        for scope, thing in (("records", ""), ("slice", "slice"), ("client", "whole client")):
            parts = [part for part in self.parts if part["scope"] == scope]
            records = _some(sum(part["count"] for part in parts), "record")
            number = sum(len(part["slices"]) for part in parts) if scope == "slice" else len(parts)
            if parts:
                found.append(f"{_some(number, thing)} ({records})" if thing else records)
        return ", ".join(found)


@dataclass(frozen=True)
class Step:
    """What was live after so many requests, at the start, after a request or after a training."""

    requests: int
    trained: bool
    level: Level


@dataclass(frozen=True)
class History:
    requests: list[Served]
    steps: list[Step]
    """In order; the last is the present."""


def history(live: Live, entries: Iterable[Entry], present: Collection[str]) -> History:
    """From all entries of the ledger up to this state of the run.

    Since the description was made, it says what was live; before that, only the ledger's counts do.
    """
    levels = _Levels(live, present)
    requests, steps = list[Served](), list[Step]()
    modules: int | None = None
    entries = list(entries)
    destroyed = _destroyed(entries)
    for entry in entries:
        if entry.kind == Kind.BUILT:
            modules = entry.body["modules"]
            steps.append(Step(len(requests), True, levels.at(entry.position, modules)))
        elif entry.kind == Kind.REQUEST:
            lost = destroyed.get(entry.position, entry.body["modules_died"])
            modules = None if modules is None else max(0, modules - lost)
            after = levels.at(entry.position, modules)
            requests.append(_served(entry, entry.position in live.finished, after))
            steps.append(Step(len(requests), False, after))
    return History(requests, [*steps, Step(len(requests), False, level_of(live.prefixes(present)))])


def level_of(prefixes: Iterable[Prefix]) -> Level:
    """Of the live parts of the sequences; equal prefixes are one module."""
    found = set(prefixes)
    nodes = {prefix[:depth] for prefix in found for depth in range(1, len(prefix) + 1)}
    return Level(len(nodes), max(map(len, found), default=0))


def _destroyed(entries: Iterable[Entry]) -> dict[int, int]:
    """By request: modules that were there and had to go, which may be fewer than the wanted that died."""
    return {
        entry.body["request"]: sum(artefact["kind"] == "module" for artefact in entry.body["artefacts"])
        for entry in entries
        if entry.kind == Kind.CONDEMNED
    }


class _Levels:
    """What was live at a position; what is dead now is taken to have been trained while it was alive."""

    def __init__(self, live: Live, present: Collection[str]) -> None:
        self.live = live
        self.known = {*present, *(entry.key for entry in live.dead_modules())}
        self.found: dict[frozenset[int], Level] = {}

    def at(self, position: int, counted: int | None) -> Level:
        if position <= self.live.description.as_of:
            return Level(counted, None)
        until = tuple(request for request in self.live.requests if request.position <= position)
        then = replace(self.live, position=position, requests=until)
        if then.dead not in self.found:
            self.found[then.dead] = level_of(then.prefixes(self.known))
        return self.found[then.dead]


def _served(entry: Entry, complete: bool, after: Level) -> Served:
    shown = ("scope", "slices", "count")
    parts = [{name: part[name] for name in shown} for part in entry.body["parts"]]
    body = entry.body
    return Served(entry.position, entry.time, parts, body["groups"], body["modules_died"], complete, after)


def _some(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
