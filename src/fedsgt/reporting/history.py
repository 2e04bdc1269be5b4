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
from fedsgt.words import counted


@dataclass(frozen=True)
class LiveCounts:
    """How much was live: modules, and groups behind the longest live prefix; none where nobody knows."""

    modules: int | None
    groups: int | None


@dataclass(frozen=True)
class PastRequest:
    """A request, and what it left."""

    position: int
    time: str
    parts: list[dict[str, Any]]
    """For each client: scope, slices, and how many records."""
    groups: list[int]
    modules_died: int
    complete: bool
    """Whether the bytes that it condemned are destroyed."""
    after: LiveCounts

    @property
    def deleted(self) -> str:
        """How much it was about, in words."""
        found = []
        for scope, thing in (("records", ""), ("slice", "slice"), ("client", "whole client")):
            parts = [part for part in self.parts if part["scope"] == scope]
            records = counted(sum(part["count"] for part in parts), "record")
            number = sum(len(part["slices"]) for part in parts) if scope == "slice" else len(parts)
            if parts:
                found.append(f"{counted(number, thing)} ({records})" if thing else records)
        return ", ".join(found)


@dataclass(frozen=True)
class HistoryPoint:
    """What was live after so many requests, at the start, after a request or after a training."""

    requests: int
    trained: bool
    live_counts: LiveCounts


@dataclass(frozen=True)
class History:
    requests: list[PastRequest]
    steps: list[HistoryPoint]
    """What was live at each point, in order; the last is the present."""

    @property
    def retrained(self) -> bool:
        """Whether the run was trained again after a request."""
        return any(step.trained and step.requests for step in self.steps)

    @property
    def groups_unknown(self) -> bool:
        """Whether the number of live groups is not known for some point."""
        return any(step.live_counts.groups is None for step in self.steps)


def history(live: Live, entries: Iterable[Entry], present: Collection[str]) -> History:
    """From all entries of the ledger up to this state of the run.

    Since the description was made, it says what was live; before that, only the ledger's counts do.
    """
    levels = _Levels(live, present)
    requests, steps = list[PastRequest](), list[HistoryPoint]()
    modules: int | None = None
    entries = list(entries)
    destroyed = _destroyed(entries)
    for entry in entries:
        if entry.kind == Kind.BUILT:
            modules = entry.body["modules"]
            steps.append(HistoryPoint(len(requests), True, levels.at(entry.position, modules)))
        elif entry.kind == Kind.REQUEST:
            lost = destroyed.get(entry.position, entry.body["modules_died"])
            modules = None if modules is None else max(0, modules - lost)
            after = levels.at(entry.position, modules)
            requests.append(_past_request(entry, entry.position in live.finished, after))
            steps.append(HistoryPoint(len(requests), False, after))
    return History(requests, [*steps, HistoryPoint(len(requests), False, count_live(live.prefixes(present)))])


def count_live(prefixes: Iterable[Prefix]) -> LiveCounts:
    """Of the live parts of the sequences; equal prefixes are one module."""
    found = set(prefixes)
    nodes = {prefix[:depth] for prefix in found for depth in range(1, len(prefix) + 1)}
    return LiveCounts(len(nodes), max(map(len, found), default=0))


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
        self.found: dict[frozenset[int], LiveCounts] = {}

    def at(self, position: int, counted: int | None) -> LiveCounts:
        if position <= self.live.description.as_of:
            return LiveCounts(counted, None)
        until = tuple(request for request in self.live.requests if request.position <= position)
        then = replace(self.live, position=position, requests=until)
        if then.dead not in self.found:
            self.found[then.dead] = count_live(then.prefixes(self.known))
        return self.found[then.dead]


def _past_request(entry: Entry, complete: bool, after: LiveCounts) -> PastRequest:
    body, shown = entry.body, ("scope", "slices", "count")
    return PastRequest(
        position=entry.position,
        time=entry.time,
        parts=[{name: part[name] for name in shown} for part in body["parts"]],
        groups=body["groups"],
        modules_died=body["modules_died"],
        complete=complete,
        after=after,
    )
