"""History of a run from its ledger: its requests one by one, and the live modules and groups after each.

The run keeps no accuracies of the past: such figures would be made from data that is deleted now.
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
    """Numbers of live modules and groups at some point; None stands for a number that is no longer known."""

    modules: int | None
    groups: int | None
    """Number of groups behind the longest live prefix."""


@dataclass(frozen=True)
class PastRequest:
    """A deletion request, and the live modules and groups after it."""

    position: int
    time: str
    parts: list[dict[str, Any]]
    """Name, scope, slices and number of records, for each client of the request."""
    groups: list[int]
    modules_died: int
    complete: bool
    """Whether the bytes that the request condemned are destroyed."""
    after: LiveCounts

    @property
    def clients(self) -> list[str]:
        """Names of the clients whose records it deleted, each once."""
        return list(dict.fromkeys(part["client"] for part in self.parts))

    @property
    def deleted(self) -> str:
        """Amount that the request deleted, such as "2 slices (60 records)"."""
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
    """Live modules and groups after an event, which is a request or a training."""

    requests: int
    """Number of requests up to this point."""
    trained: bool
    """Whether the event was a training."""
    live_counts: LiveCounts
    time: str | None = None
    """Time of the event, by the ledger; None for the present."""


@dataclass(frozen=True)
class History:
    """All requests of a run, and the live modules and groups after each."""

    requests: list[PastRequest]
    steps: list[HistoryPoint]
    """Points in the order of time; the last is the present."""

    @property
    def retrained(self) -> bool:
        """Whether the run was trained again after a request."""
        return any(step.trained and step.requests for step in self.steps)

    @property
    def groups_unknown(self) -> bool:
        """Whether the number of live groups is not known for some point."""
        return any(step.live_counts.groups is None for step in self.steps)


def history(
    live: Live, entries: Iterable[Entry], present: Collection[str], lost: Collection[str] = ()
) -> History:
    """Return the history from all entries of the ledger up to this state of the run.

    Modules that are `lost` by now are missing or damaged, and were live before. The description tells what
    was live since it was made. For the time before, only counts are known, which
    the ledger keeps.
    """
    past = _PastLiveCounts(live, [*present, *lost])
    requests, steps = list[PastRequest](), list[HistoryPoint]()
    modules: int | None = None
    entries = list(entries)
    destroyed = _destroyed(entries)
    for entry in entries:
        if entry.kind == Kind.BUILT:
            modules = entry.body["modules"]
            steps.append(HistoryPoint(len(requests), True, past.at(entry.position, modules), entry.time))
        elif entry.kind == Kind.REQUEST:
            # The ledger's count of dying modules includes untrained ones, which were never live.
            gone = destroyed.get(entry.position, entry.body["modules_died"])
            # Counted down: what was live before the last training is not described any more.
            modules = None if modules is None else max(0, modules - gone)
            after = past.at(entry.position, modules)
            requests.append(_past_request(live, entry, after))
            steps.append(HistoryPoint(len(requests), False, after, entry.time))
    return History(requests, [*steps, HistoryPoint(len(requests), False, count_live(live.prefixes(present)))])


def count_live(prefixes: Iterable[Prefix]) -> LiveCounts:
    """Count the modules and groups of these live prefixes; sequences that begin alike share modules."""
    found = set(prefixes)
    nodes = {prefix[:depth] for prefix in found for depth in range(1, len(prefix) + 1)}
    return LiveCounts(len(nodes), max(map(len, found), default=0))


def _destroyed(entries: Iterable[Entry]) -> dict[int, int]:
    """Return the number of modules that each request destroyed: fewer than died if some were untrained."""
    return {
        entry.body["request"]: sum(artefact["kind"] == "module" for artefact in entry.body["artefacts"])
        for entry in entries
        if entry.kind == Kind.CONDEMNED
    }


class _PastLiveCounts:
    """Counts the live modules and groups at earlier positions of the ledger."""

    def __init__(self, live: Live, present: Collection[str]) -> None:
        self.live = live
        # Dead modules are not there any more, but they were trained while they were alive.
        self.known = {*present, *(entry.key for entry in live.dead_modules())}
        # Cached by dead groups, as many requests hit no further group.
        self.found: dict[frozenset[int], LiveCounts] = {}

    def at(self, position: int, modules: int | None) -> LiveCounts:
        """Return the counts at a position; only `modules` is known from before the description was made."""
        if position <= self.live.description.as_of:
            return LiveCounts(modules, None)
        until = tuple(request for request in self.live.requests if request.position <= position)
        then = replace(self.live, position=position, requests=until)
        if then.dead not in self.found:
            self.found[then.dead] = count_live(then.prefixes(self.known))
        return self.found[then.dead]


def _past_request(live: Live, entry: Entry, after: LiveCounts) -> PastRequest:
    # The ledger has salted hashes of clients' names and their numbers, and the description the names.
    body, clients = entry.body, live.description.clients
    shown = ("scope", "slices", "count")
    parts = [
        {"client": clients[part["number"]].name, **{name: part[name] for name in shown}}
        for part in body["parts"]
    ]
    return PastRequest(
        position=entry.position,
        time=entry.time,
        parts=parts,
        groups=body["groups"],
        modules_died=body["modules_died"],
        complete=entry.position in live.finished,
        after=after,
    )
