"""Fast ways to construct an assignment within sizes and limits; they may fail although there is one."""

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from fedsgt.grouping.problem import Ints, Problem

# A group, and a number of slices in it.
Place = tuple[int, int]


def lay_in_line(problem: Problem, order: Ints) -> Ints:
    """Fill the groups one after another with whole clients in this order.

    A client then touches at most 1 + ceil((S_i - 1) / floor(M/L)) groups, whatever the order.
    """
    # Everything is done in arrays, because a loop over clients would take seconds for a million slices.
    starts = np.cumsum(problem.slices) - problem.slices
    lengths = problem.slices[order]
    before = np.cumsum(lengths) - lengths
    flat = np.repeat(starts[order] - before, lengths) + np.arange(problem.total)
    group_of = np.empty(problem.total, dtype=np.int64)
    group_of[flat] = np.repeat(np.arange(problem.groups), problem.sizes)
    return group_of


@dataclass
class Pieces:
    """Placed pieces of clients: `counts[k]` slices of `clients[k]` are in `groups[k]`."""

    clients: list[int] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    def add(self, client: int, places: Iterable[Place]) -> None:
        """Add one client's pieces."""
        for group, count in places:
            self.clients.append(client)
            self.groups.append(group)
            self.counts.append(count)

    def group_of(self) -> Ints:
        """Return the group of every slice of these clients, client by client."""
        # Stable, so that a client's pieces keep the order in which they were added.
        by_client = np.argsort(self.clients, kind="stable")
        return np.repeat(np.array(self.groups, dtype=np.int64)[by_client], np.array(self.counts)[by_client])


class FreeRoom:
    """The room left in every group that is not full, smallest first."""

    def __init__(self, rooms: Iterable[Place]) -> None:
        self._sorted = sorted((room, group) for group, room in rooms)

    @classmethod
    def of(cls, problem: Problem) -> "FreeRoom":
        """Return the room in all groups while they are empty."""
        return cls(enumerate(problem.sizes.tolist()))

    def place(self, size: int, parts: int) -> list[Place]:
        """Take room for `size` slices in at most `parts` groups; return an empty list if there is none.

        Small rooms are used up first: they are of the least use to the clients that come later.
        """
        # Room in the largest groups is what counts: if these are too small, no choice of groups will do.
        if size > self._largest(parts):
            return []
        taken = []
        while size:
            room, group = self._sorted.pop(self._choose(size, parts))
            count = min(room, size)
            # A full group leaves the list; any other goes back to its place in the order.
            if room > count:
                insort(self._sorted, (room - count, group))
            taken.append((group, count))
            size, parts = size - count, parts - 1
        return taken

    def place_in_fewest(self, size: int) -> list[Place]:
        """Take room for `size` slices in as few groups as possible."""
        room = np.cumsum([room for room, _ in reversed(self._sorted)])
        return self.place(size, 1 + int(np.searchsorted(room, size)))

    def _choose(self, size: int, parts: int) -> int:
        """Choose an exact fit; else the smallest room if the rest still fits; else the tightest for all."""
        best = bisect_left(self._sorted, (size, -1))
        if best < len(self._sorted) and self._sorted[best][0] == size:
            return best
        # The smallest room is taken only if the rest still fits into one group less.
        smallest = self._sorted[0][0]
        if parts > 1 and smallest < size and size - smallest <= self._largest(parts - 1, skip=1):
            return 0
        return min(best, len(self._sorted) - 1)

    def _largest(self, parts: int, skip: int = 0) -> int:
        """Return the total of the `parts` largest rooms, leaving out the `skip` smallest."""
        return sum(room for room, _ in self._sorted[max(skip, len(self._sorted) - parts) :])


def hardest_first(problem: Problem, clients: Ints, rng: np.random.Generator, jitter: float = 0.0) -> Ints:
    """Order clients by slices per allowed group, most first and ties at random; `jitter` blurs the order."""
    piece = problem.slices[clients] / problem.limits[clients]
    # Packing by the strict order may fail where a slightly different one succeeds.
    blurred = piece * np.exp(jitter * rng.random(len(clients)))
    return clients[np.lexsort((rng.random(len(clients)), -blurred))]


def pack(problem: Problem, clients: Ints) -> tuple[Pieces, int | None]:
    """Place clients one by one within their limits; return the pieces and the first client without room."""
    free, pieces = FreeRoom.of(problem), Pieces()
    for client in clients.tolist():
        places = free.place(int(problem.slices[client]), int(problem.limits[client]))
        if not places:
            return pieces, client
        pieces.add(client, places)
    return pieces, None


def fill(problem: Problem, pieces: Pieces, rng: np.random.Generator) -> Ints:
    """Complete an assignment: put the unrestricted clients' slices at random into the room left."""
    used = np.bincount(pieces.groups, weights=pieces.counts, minlength=problem.groups).astype(np.int64)
    group_of = np.empty(problem.total, dtype=np.int64)
    tied = problem.restricted[problem.client_of]
    group_of[tied] = pieces.group_of()
    group_of[~tied] = rng.permutation(np.repeat(np.arange(problem.groups), problem.sizes - used))
    return group_of
