"""What of a run is live: its description, and the deletions in the ledger that came after it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsgt.build.description import Description, ModuleEntry
from fedsgt.store.ledger import Entry, Ledger

# Kinds of entries. What a request condemns is listed before it is destroyed, and noted after.
REQUEST, CONDEMNED, DESTROYED = "request", "condemned", "destroyed"
# Entries after which a run's description is another one, or more of its modules are there.
CHANGES = ("rebuilt", "joined", "built")


@dataclass(frozen=True)
class Erased:
    """What one client has had deleted: whole slices, and records by their salted hashes."""

    slices: frozenset[int] = frozenset()
    records: frozenset[str] = frozenset()

    def and_part(self, part: dict[str, Any]) -> Erased:
        if part["scope"] == "records":
            return replace(self, records=self.records.union(part["records"]))
        return replace(self, slices=self.slices.union(part["slices"]))


@dataclass(frozen=True)
class Live:
    """A run at one version of its ledger. A module is live if no deletion has hit any of its groups."""

    description: Description = field(repr=False)
    position: int
    """The ledger's version: the position of its last entry."""
    requests: tuple[Entry, ...] = field(repr=False)
    finished: frozenset[int] = field(repr=False, default=frozenset())
    """Positions of the requests whose bytes are destroyed."""

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

    def erased(self) -> dict[int, Erased]:
        """By number of the client: all that was deleted so far."""
        found: dict[int, Erased] = {}
        for request in self.requests:
            for part in request.body["parts"]:
                number = part["number"]
                found[number] = found.get(number, Erased()).and_part(part)
        return found


def hit_after(requests: Iterable[Entry], position: int) -> frozenset[int]:
    hit: set[int] = set()
    for request in requests:
        if request.position > position:
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
    """Keeps up with the ledger: as cheap as one query while nothing changes."""

    def __init__(self, ledger: Ledger, read_description: Callable[[], Description]) -> None:
        self.ledger, self.read_description = ledger, read_description
        self.now: Live | None = None

    def live(self) -> Live:
        """The run as the ledger has it at this moment."""
        known = self.now
        position = known.position if known else 0
        if known is not None and self.ledger.head() == position:
            return known
        entries = self.ledger.entries(after=position)
        before = known.requests if known else ()
        requests = (*before, *(entry for entry in entries if entry.kind == REQUEST))
        # Read after the ledger: what is described may be newer than the entries, never older than they say.
        same = known is not None and not any(entry.kind in CHANGES for entry in entries)
        description = known.description if known is not None and same else self.read_description()
        done = {entry.body["request"] for entry in entries if entry.kind == DESTROYED}
        finished = (known.finished if known else frozenset()) | done
        self.now = Live(description, entries[-1].position if entries else position, requests, finished)
        return self.now
