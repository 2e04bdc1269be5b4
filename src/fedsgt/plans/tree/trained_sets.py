"""The sets of groups that a tree trains, each on top of a smaller one, and the plan that trains them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fedsgt.plans.plan import Plan, Prefix
from fedsgt.plans.scoring.subsets import mask_of, members
from fedsgt.window import Window, groups_used, order_passes

# A new level for each size that changes.
Changes = dict[int, list[int]]


@dataclass
class TrainedSets:
    """Trained sets by size; each set has a parent, a set with one group less, on the level below."""

    groups: int
    """Number of groups (L)."""
    levels: list[list[int]]
    """Sets of d groups at `levels[d]`, as bit masks; level 0 is empty."""
    window: Window = None

    def __post_init__(self) -> None:
        self.prices = [groups_used(size, self.window) for size in range(self.groups + 1)]
        """Cost of a set of each size, in groups trained on."""
        # Kept up to date, because a search asks for it at every move.
        self.cost = sum(self.prices[size] * len(level) for size, level in enumerate(self.levels))

    @property
    def passes(self) -> float:
        """Cost in passes over the data."""
        return self.cost / self.groups

    def replace(self, changes: Changes) -> None:
        """Put the new levels in the place of the present ones."""
        for size, level in changes.items():
            self.cost += self.prices[size] * (len(level) - len(self.levels[size]))
            self.levels[size] = level

    def passes_with(self, changes: Changes) -> float:
        """Return the cost in passes if these levels replaced the present ones."""
        more = sum(
            self.prices[size] * (len(level) - len(self.levels[size])) for size, level in changes.items()
        )
        return (self.cost + more) / self.groups

    def copy(self) -> TrainedSets:
        """Return a copy whose levels can be changed."""
        return TrainedSets(self.groups, [list(level) for level in self.levels], self.window)

    def propose(self, rng: random.Random) -> Changes:
        """Drop a set, add one, or both, at random; return {} if that leaves a set without a parent.

        The set added is often of another size than the one dropped, so that cost can move between sizes.
        """
        # One draw decides: below 0.2 only drop, above 0.8 only add, between them exchange.
        luck, changes = rng.random(), dict[int, list[int]]()
        smaller = size = rng.randrange(2, self.groups)
        dropped = self._drop(size, changes, rng) if luck < 0.8 else 0
        if dropped is None:
            return {}
        if luck > 0.6:
            size = rng.randrange(2, self.groups)
        if luck > 0.2 and not self._add(size, changes, rng):
            return {}
        return changes if not dropped or self._children_have_parents(smaller, dropped, changes) else {}

    def _drop(self, size: int, changes: Changes, rng: random.Random) -> int | None:
        """Drop a random set of this size and return it; None if there is none."""
        level = list(self.levels[size])
        if not level:
            return None
        dropped = level.pop(rng.randrange(len(level)))
        changes[size] = level
        return dropped

    def _add(self, size: int, changes: Changes, rng: random.Random) -> bool:
        """Add a set of this size above a random parent; False if there is none or the set is there."""
        parents = changes.get(size - 1, self.levels[size - 1])
        if not parents:
            return False
        grown = self._grow(rng.choice(parents), rng)
        changes[size] = [*changes.get(size, self.levels[size]), grown]
        # A set that was dropped in this very move is refused too: putting it back would be no change.
        return grown not in self.levels[size]

    def _children_have_parents(self, size: int, dropped: int, changes: Changes) -> bool:
        """Return whether every child of a set of this size that was dropped still has a parent."""
        above = changes.get(size + 1, self.levels[size + 1])
        return each_has_parent([child for child in above if dropped & child == dropped], changes[size])

    def _grow(self, parent: int, rng: random.Random) -> int:
        """Add a random group to the parent."""
        while True:
            group = 1 << rng.randrange(self.groups)
            if not parent & group:
                return parent | group


def each_has_parent(children: Iterable[int], parents: Sequence[int]) -> bool:
    """Return whether every child is a superset of some parent."""
    # Plain loops, as a search asks a million times and generators would take most of its time.
    for child in children:
        for parent in parents:
            if parent & child == parent:
                break
        else:
            return False
    return True


def rotation_sets(groups: int, starts: Iterable[int], window: Window = None) -> TrainedSets:
    """Return the sets that rotations from these starts train, all single groups, and the full set once."""
    starts = list(starts)
    levels: list[list[int]] = [[], [1 << group for group in range(groups)]]
    for size in range(2, groups):
        levels.append([mask_of((start + step) % groups for step in range(size)) for start in starts])
    levels.append([(1 << groups) - 1])
    return TrainedSets(groups, levels[: groups + 1], window)


def chain_sets(order: Sequence[int], passes: float, window: Window = None) -> TrainedSets:
    """Return the prefixes of one order of all groups, and as many more single groups as the cost allows."""
    groups = len(order)
    # A single group costs 1/L.
    afford = int((passes - order_passes(groups, window)) * groups + 1e-9)
    singles = [1 << group for group in order[: 1 + max(0, afford)]]
    longer = [[mask_of(order[:size])] for size in range(2, groups + 1)]
    return TrainedSets(groups, [[], singles, *longer], window)


def plan_of(sets: TrainedSets) -> Plan:
    """Give each set the parent with fewest children, and return the paths to the leaves, longest first."""
    path: dict[int, Prefix] = {mask: tuple(members(mask)) for mask in sets.levels[1]}
    children: dict[int, int] = {}
    for size in range(2, sets.groups + 1):
        for mask in sorted(sets.levels[size]):
            parents = [parent for parent in sets.levels[size - 1] if parent & mask == parent]
            parent = min(parents, key=lambda mask: (children.get(mask, 0), mask))
            children[parent] = children.get(parent, 0) + 1
            path[mask] = (*path[parent], *members(mask & ~parent))
    leaves = [path[mask] for mask in path if mask not in children]
    # Longest first, then by groups: the order of sequences must not depend on how the sets were found.
    leaves.sort(key=lambda leaf: (-len(leaf), leaf))
    return Plan.of("tree", sets.groups, leaves, sets.window)
