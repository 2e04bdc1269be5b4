"""The state of a run: what is live, by its description and the deletions in its ledger since."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedsgt.errors import InputError
from fedsgt.files.encoding import frames
from fedsgt.ledger.kinds import Kind
from fedsgt.ledger.ledger import Entry, Ledger
from fedsgt.runs.description import Description, ModuleEntry

MARK_DIGITS = 16


@dataclass(frozen=True)
class DeletedData:
    """Everything that one client has had deleted."""

    slices: frozenset[int] = frozenset()
    """Indices of slices that were deleted whole."""
    records: frozenset[str] = frozenset()
    """Salted hashes of the ids of single records."""

    @cached_property
    def mark(self) -> str:
        """Text that stands for exactly these deletions: what was made without these data carries it."""
        slices, records = sorted(self.slices), sorted(self.records)
        code = hashlib.sha256(frames("fedsgt.deleted.1", len(slices), *slices, len(records), *records))
        return code.hexdigest()[:MARK_DIGITS]


NOTHING_DELETED = DeletedData()


@dataclass(frozen=True)
class Live:
    """The live part of a run at one position of its ledger.

    A group is dead once a deletion has hit it, and a module is live as long as none of its groups is dead.
    Being live is a matter of the ledger alone: a live module may not be trained yet, and a dead one may still
    be on disk. So this is asked for anew before every use, and `after` tells what one more entry changes.
    """

    description: Description = field(repr=False)
    position: int
    """Position of the ledger's last entry."""
    requests: tuple[Entry, ...] = field(repr=False)
    """All deletion requests so far, oldest first."""
    finished: frozenset[int] = field(repr=False, default=frozenset())
    """Positions of the requests whose bytes are destroyed."""
    deleted: Mapping[int, DeletedData] = field(repr=False, default_factory=dict)
    """All data deleted so far, by the number of the client."""
    copied: int = 0
    """Position up to which the entries are those of another run, if this one is a copy; 0 if it is not."""
    keys: tuple[Entry, ...] = field(repr=False, default=())
    """All changes of the key that signs certificates, oldest first."""

    @cached_property
    def dead(self) -> frozenset[int]:
        """Groups that deletions have hit since the description was made."""
        return hit_after(self.requests, self.description.as_of)

    @property
    def last_request(self) -> int:
        """Position of the last request; 0 before the first."""
        return self.requests[-1].position if self.requests else 0

    def mark_of(self, client: int) -> str:
        """Return the mark of everything that the client of this number has had deleted."""
        return self.deleted.get(client, NOTHING_DELETED).mark

    def modules(self) -> list[ModuleEntry]:
        """Return the live modules of the plan, trained or not."""
        dead = self.dead
        return [entry for entry in self.description.modules if dead.isdisjoint(entry.groups)]

    @cached_property
    def depths(self) -> NDArray[np.int64]:
        """Number of groups of each sequence before its first dead one."""
        return self.description.depths_before(self.dead)

    def dying(self, groups: Iterable[int]) -> set[tuple[int, ...]]:
        """Return the prefixes of the live modules that a hit of these groups kills."""
        # Only modules from each sequence's first hit group on are visited, so that time grows with the dying
        # ones.
        found: set[tuple[int, ...]] = set()
        firsts = self.description.depths_before(set(groups))
        for order, first, depth in zip(self.description.sequences, firsts, self.depths, strict=True):
            found.update(tuple(order[:end]) for end in range(first + 1, depth + 1))
        return found

    def dead_modules(self) -> list[ModuleEntry]:
        """Return the modules that may neither be served nor be kept."""
        return modules_in(self.description, self.dead)

    def hit_slices(self) -> list[str]:
        """Return the fingerprints in the description of the slices that lost records since it was made."""
        found: dict[str, None] = {}
        for request in self.requests:
            # Earlier deletions are in the description already: there these slices have new fingerprints.
            for part in request.body["parts"] if request.position > self.description.as_of else ():
                fingerprints = self.description.clients[part["number"]].slices
                found.update({fingerprints[index]: None for index in part["slices"]})
        return list(found)

    def prefixes(self, present: Collection[str]) -> list[tuple[int, ...]]:
        """Return the live prefix of each sequence: up to its first module that is dead or not present."""
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

    def after(self, entries: Sequence[Entry]) -> Live:
        """Return the state after these further entries of the ledger."""
        requests = [entry for entry in entries if entry.kind == Kind.REQUEST]
        done = {entry.body["request"] for entry in entries if entry.kind == Kind.DESTROYED}
        taken = [entry.position for entry in entries if entry.kind == Kind.COPIED]
        return replace(
            self,
            position=entries[-1].position if entries else self.position,
            copied=taken[-1] if taken else self.copied,
            requests=(*self.requests, *requests),
            finished=self.finished | done,
            deleted=deleted_after(self.deleted, requests),
            keys=(*self.keys, *(entry for entry in entries if entry.kind == Kind.KEY)),
        )

    def until(self, request: Entry) -> Live:
        """Return the state when this request came; data that was deleted since stays deleted."""
        known = tuple(entry for entry in self.requests if entry.position <= request.position)
        # `deleted` stays whole: deleted data must not come back even in a view of the past.
        return replace(self, position=request.position, requests=known)


def deleted_after(before: Mapping[int, DeletedData], requests: Iterable[Entry]) -> dict[int, DeletedData]:
    """Return all data deleted before and by these requests, by the number of the client."""
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
        known = found.get(number, DeletedData())
        found[number] = DeletedData(
            known.slices.union(slices.get(number, ())), known.records.union(records.get(number, ()))
        )
    return found


def hit_after(requests: Sequence[Entry], position: int) -> frozenset[int]:
    """Return the groups that were hit by requests after this position of the ledger."""
    hit: set[int] = set()
    # From the newest on: only requests since the last training count, and there may be thousands before.
    for request in reversed(requests):
        if request.position <= position:
            break
        hit.update(request.body["groups"])
    return frozenset(hit)


def modules_in(description: Description, groups: Iterable[int]) -> list[ModuleEntry]:
    """Return the modules that depend on any of these groups, each once."""
    found = {
        entry.key: entry
        for group in groups
        if group in description.modules_of
        for entry in description.modules_of[group]
    }
    return list(found.values())


class LiveState:
    """Keeps a run's state up to date with its ledger and its description.

    The description in force is the one whose hash the ledger has, whatever else the files say. As long as
    nothing changes, asking for the state costs one query and one look at each file.
    """

    def __init__(
        self,
        ledger: Ledger,
        find_description: Callable[[str], Description | None],
        stamp: Callable[[], tuple[object, ...]],
        where: object,
    ) -> None:
        """Keep the state of the run in the folder `where`, which errors name."""
        self.ledger, self.find_description, self.stamp = ledger, find_description, stamp
        self.where = where
        # All in one, so that a thread never sees the state of one moment with the stamp of another.
        self.known: tuple[Live, str, tuple[object, ...]] | None = None

    def live(self) -> Live:
        """Return the state at this moment."""
        return self.look()[0]

    def look(self) -> tuple[Live, str]:
        """Return the state at this moment, and the hash of the description that is in force."""
        while True:
            known, head, stamp = self.known, self.ledger.head(), self.stamp()
            if known is not None and head == known[0].position and stamp == known[2]:
                return known[0], known[1]
            found = self._read(known, stamp)
            if found is not None:
                self.known = found
                return found[0], found[1]
            # A writer may have put another description in force since the entries were read.
            if self.ledger.head() == head and self.stamp() == stamp:
                raise InputError(
                    f"{self.where}: run.json is missing or is not the description that the ledger "
                    "knows, so nothing is served; restore run.json from a backup; nothing was changed"
                )

    def _read(
        self, known: tuple[Live, str, tuple[object, ...]] | None, stamp: tuple[object, ...]
    ) -> tuple[Live, str, tuple[object, ...]] | None:
        """Read what is new; None if no file holds the description that the ledger names."""
        before, code, seen = known or (None, "", ())
        # Only new entries are read; those before are in the known state and never change.
        entries = self.ledger.entries(after=before.position if before else 0)
        named = description_hash(entries) or code
        if before is None or named != code or stamp != seen:
            described = self.find_description(named)
            if described is None:
                return None
            before = replace(before, description=described) if before else Live(described, 0, ())
        return before.after(entries), named, stamp


def description_hash(entries: Sequence[Entry]) -> str | None:
    """Return the hash of the description that the last of these entries put in force; None if none did."""
    found = (e.body.get("description") for e in reversed(entries) if e.kind in (Kind.OPENED, Kind.REBUILT))
    return next((code for code in found if isinstance(code, str)), None)
