"""What of a run is live: its description, and the deletions in the ledger that came after it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedsgt.ledger.kinds import Kind
from fedsgt.ledger.ledger import Entry, Ledger
from fedsgt.runs.description import Description, ModuleEntry


@dataclass(frozen=True)
class Erased:
    """What one client has had deleted: whole slices, and records by their salted hashes."""

    slices: frozenset[int] = frozenset()
    records: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Live:
    """A run at one version of its ledger. A module is live if no deletion has hit any of its groups."""

    description: Description = field(repr=False)
    position: int
    """The ledger's version: the position of its last entry."""
    requests: tuple[Entry, ...] = field(repr=False)
    finished: frozenset[int] = field(repr=False, default=frozenset())
    """Positions of the requests whose bytes are destroyed."""
    gone: Mapping[int, Erased] = field(repr=False, default_factory=dict)

    @cached_property
    def dead(self) -> frozenset[int]:
        """Groups that were hit since the description was made."""
        return hit_after(self.requests, self.description.as_of)

    @property
    def last_request(self) -> int:
        return self.requests[-1].position if self.requests else 0

    def modules(self) -> list[ModuleEntry]:
        """The wanted modules that may be served, trained or not."""
        dead = self.dead
        return [entry for entry in self.description.modules if dead.isdisjoint(entry.groups)]

    @cached_property
    def depths(self) -> NDArray[np.int64]:
        """How many groups of each sequence stand before its first dead one."""
        return self.description.depths_before(self.dead)

    def dying(self, groups: Iterable[int]) -> set[tuple[int, ...]]:
        """Prefixes of the live modules that a hit of these groups kills; the time goes with their number."""
        found: set[tuple[int, ...]] = set()
        firsts = self.description.depths_before(set(groups))
        for order, first, depth in zip(self.description.sequences, firsts, self.depths, strict=True):
            found.update(tuple(order[:end]) for end in range(first + 1, depth + 1))
        return found

    def dead_modules(self) -> list[ModuleEntry]:
        """The modules that may neither be served nor be kept."""
        return modules_in(self.description, self.dead)

    def hit_slices(self) -> list[str]:
        """Return the fingerprints in the description of the slices that lost records since it was made."""
        found: dict[str, None] = {}
        for request in self.requests:
            # Earlier deletions are in the description already: there these slices have new fingerprints.
            for part in request.body["parts"] if request.position > self.description.as_of else ():
                marks = self.description.clients[part["number"]].slices
                found.update({marks[index]: None for index in part["slices"]})
        return list(found)

    def prefixes(self, present: Collection[str]) -> list[tuple[int, ...]]:
        """The live part of each sequence: up to its first module that is dead or not there."""
        dead, keys = self.dead, self.description.keys
        found = []
        for order in self.description.sequences:
            depth = 0
            while (
                depth < len(order) and order[depth] not in dead and keys[tuple(order[: depth + 1])] in present
            ):
                depth += 1
            found.append(tuple(order[:depth]))
        return found

    def erased(self) -> Mapping[int, Erased]:
        """By number of the client: all that was deleted so far."""
        return self.gone

    def after(self, entries: Sequence[Entry]) -> Live:
        """The same run with more of its ledger."""
        requests = [entry for entry in entries if entry.kind == Kind.REQUEST]
        done = {entry.body["request"] for entry in entries if entry.kind == Kind.DESTROYED}
        return replace(
            self,
            position=entries[-1].position if entries else self.position,
            requests=(*self.requests, *requests),
            finished=self.finished | done,
            gone=erased_after(self.gone, requests),
        )

    def until(self, request: Entry) -> Live:
        """The same run when this request came; what was deleted since stays deleted."""
        known = tuple(entry for entry in self.requests if entry.position <= request.position)
        return replace(self, position=request.position, requests=known)


def erased_after(before: Mapping[int, Erased], requests: Iterable[Entry]) -> dict[int, Erased]:
    """By number of the client: all that was deleted so far."""
    slices: dict[int, set[int]] = {}
    records: dict[int, set[str]] = {}
    for request in requests:
        for part in request.body["parts"]:
            number = part["number"]
            if part["scope"] == "records":
                records.setdefault(number, set()).update(part["records"])
            else:
                slices.setdefault(number, set()).update(part["slices"])
    found = dict(before)
    for number in slices.keys() | records.keys():
        known = found.get(number, Erased())
        found[number] = Erased(
            known.slices.union(slices.get(number, ())), known.records.union(records.get(number, ()))
        )
    return found


def hit_after(requests: Sequence[Entry], position: int) -> frozenset[int]:
    hit: set[int] = set()
    for request in reversed(requests):
        if request.position <= position:
            break
        hit.update(request.body["groups"])
    return frozenset(hit)


def modules_in(description: Description, groups: Iterable[int]) -> list[ModuleEntry]:
    """The modules that depend on any of these groups, each once."""
    found = {
        entry.key: entry
        for group in groups
        if group in description.modules_of
        for entry in description.modules_of[group]
    }
    return list(found.values())


class Watch:
    """Keeps up with the ledger and the description: a query and a look at a file while nothing changes."""

    def __init__(
        self,
        ledger: Ledger,
        read_description: Callable[[], Description],
        stamp: Callable[[], tuple[int, ...]],
    ) -> None:
        self.ledger, self.read_description, self.stamp = ledger, read_description, stamp
        self.now: Live | None = None
        self.seen: tuple[int, ...] = ()

    def live(self) -> Live:
        """The run as the ledger has it at this moment."""
        known, head, stamp = self.now, self.ledger.head(), self.stamp()
        if known is not None and head == known.position and stamp == self.seen:
            return known
        entries = self.ledger.entries(after=known.position if known else 0)
        # Read after the ledger: what is described may be newer than the entries, never older than they say.
        if known is None or stamp != self.seen:
            described = self.read_description()
            known = replace(known, description=described) if known else Live(described, 0, ())
        self.now, self.seen = known.after(entries), stamp
        return self.now
