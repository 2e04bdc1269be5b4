"""A family of sets of groups, each standing on a smaller one, and the plan that trains it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fedsgt.plans.plan import Plan, Prefix
from fedsgt.plans.scoring.subsets import mask_of, members

Changes = dict[int, list[int]]  # a new level for each size that changes


@dataclass
class Family:
    """`levels[d]` holds the trained sets of d groups as bit masks; level 0 is empty."""

    groups: int
    levels: list[list[int]]

    def __post_init__(self) -> None:
        self.cost = sum(size * len(level) for size, level in enumerate(self.levels))  # in groups trained on

    @property
    def passes(self) -> float:
        return self.cost / self.groups

    def replace(self, changes: Changes) -> None:
        for size, level in changes.items():
            self.cost += size * (len(level) - len(self.levels[size]))
            self.levels[size] = level

    def passes_with(self, changes: Changes) -> float:
        """The cost if these levels stood in the place of the present ones."""
        more = sum(size * (len(level) - len(self.levels[size])) for size, level in changes.items())
        return (self.cost + more) / self.groups

    def copy(self) -> Family:
        return Family(self.groups, [list(level) for level in self.levels])

    def propose(self, rng: random.Random) -> Changes:
        """One set dropped, added, or one for another; none if the luck of the draw makes no sense.

        The set added is often of another size than the one dropped, so that cost can move between sizes.
        """
        luck, changes = rng.random(), dict[int, list[int]]()
        size = rng.randrange(2, self.groups)
        if luck < 0.8 and not self._drop(size, changes, rng):
            return {}
        if luck > 0.6:
            size = rng.randrange(2, self.groups)
        if luck > 0.2 and not self._add(size, changes, rng):
            return {}
        return changes if all(self._stand(size, changes) for size in changes) else {}

    def _drop(self, size: int, changes: Changes, rng: random.Random) -> bool:
        level = list(self.levels[size])
        if level:
            level.pop(rng.randrange(len(level)))
            changes[size] = level
        return bool(changes)

    def _add(self, size: int, changes: Changes, rng: random.Random) -> bool:
        parents = changes.get(size - 1, self.levels[size - 1])
        if not parents:
            return False
        grown = self._grow(rng.choice(parents), rng)
        changes[size] = [*changes.get(size, self.levels[size]), grown]
        return grown not in self.levels[size]

    def _stand(self, size: int, changes: Changes) -> bool:
        """Every set one larger still has a parent of this size."""
        return stand(changes.get(size + 1, self.levels[size + 1]), changes[size])

    def _grow(self, parent: int, rng: random.Random) -> int:
        while True:
            group = 1 << rng.randrange(self.groups)
            if not parent & group:
                return parent | group


def stand(children: Iterable[int], parents: Sequence[int]) -> bool:
    """Whether each of these sets holds one of those."""
    return all(any(parent & child == parent for parent in parents) for child in children)


def rotation_family(groups: int, starts: Iterable[int]) -> Family:
    """The arcs that rotations from these starts train, all single groups, and the full set once."""
    starts = list(starts)
    levels: list[list[int]] = [[], [1 << group for group in range(groups)]]
    for size in range(2, groups):
        levels.append([mask_of((start + step) % groups for step in range(size)) for start in starts])
    levels.append([(1 << groups) - 1])
    return Family(groups, levels[: groups + 1])


def chain_family(order: Sequence[int], passes: float) -> Family:
    """This order of all groups, and as many single groups besides as the cost allows."""
    groups = len(order)
    afford = int((passes - (groups + 1) / 2) * groups + 1e-9)
    singles = [1 << group for group in order[: 1 + max(0, afford)]]
    return Family(groups, [[], singles, *([mask_of(order[:size])] for size in range(2, groups + 1))])


def plan_of(family: Family) -> Plan:
    """Hang each set below a parent, children spread evenly; the paths to the leaves, longest first."""
    path: dict[int, Prefix] = {mask: tuple(members(mask)) for mask in family.levels[1]}
    children: dict[int, int] = {}
    for size in range(2, family.groups + 1):
        for mask in sorted(family.levels[size]):
            parents = [parent for parent in family.levels[size - 1] if parent & mask == parent]
            parent = min(parents, key=lambda mask: (children.get(mask, 0), mask))
            children[parent] = children.get(parent, 0) + 1
            path[mask] = (*path[parent], *members(mask & ~parent))
    leaves = [path[mask] for mask in path if mask not in children]
    leaves.sort(key=lambda leaf: (-len(leaf), leaf))
    return Plan.of("tree", family.groups, leaves)
