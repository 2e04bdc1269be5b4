"""A finished grouping, and Eq. 1, the paper's measure of how good it is."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedsgt.errors import InputError
from fedsgt.grouping.problem import Floats, Ints, read_embeddings


@dataclass(frozen=True, eq=False)
class Grouping:
    """The group of each slice. Slices are numbered through: first those of client 0, then of client 1, ..."""

    client_of: Ints
    """Client of each slice."""
    group_of: Ints
    """Group of each slice."""
    groups: int
    """Number of groups (L)."""
    method: str
    """Name of the method that made it."""
    looks_at_data: bool
    """Whether the choice looked at data content, which manifests and certificates say (definition 8)."""

    def __post_init__(self) -> None:
        # Own copies that cannot be written: module keys depend on these numbers.
        for name in ("client_of", "group_of"):
            numbers = np.array(getattr(self, name), dtype=np.int64)
            numbers.setflags(write=False)
            object.__setattr__(self, name, numbers)
        self._check()

    def _check(self) -> None:
        """Check that slices are in order and groups exist: groupings are read from files too."""
        if self.client_of.ndim != 1 or self.client_of.shape != self.group_of.shape or not self.slices:
            raise InputError(
                f"grouping: {self.client_of.shape} clients and {self.group_of.shape} groups, "
                "but one of each is needed per slice"
            )
        # From one slice to the next the client stays or goes up by one; anything else is out of order.
        steps = np.diff(self.client_of, prepend=-1)
        if self.client_of[0] != 0 or not np.isin(steps, (0, 1)).all():
            raise InputError("grouping: slices are not numbered client by client from client 0")
        if self.group_of.min() < 0 or self.group_of.max() >= self.groups:
            raise InputError(f"grouping: a group is not between 0 and {self.groups - 1}")

    @property
    def clients(self) -> int:
        """Number of clients (N)."""
        return int(self.client_of[-1]) + 1

    @property
    def slices(self) -> int:
        """Number of slices (M)."""
        return len(self.client_of)

    def members(self, group: int) -> Ints:
        """Return the numbers of the group's slices, ascending."""
        if not 0 <= group < self.groups:
            raise InputError(f"group: {group} is not between 0 and {self.groups - 1}")
        return np.flatnonzero(self.group_of == group)

    def slice_ids(self, group: int) -> list[tuple[int, int]]:
        """Return the group's slices as (client, slice within the client)."""
        flat = self.members(group)
        clients = self.client_of[flat]
        # A client's slices are consecutive, so the first one's number is found by bisection.
        inside = flat - np.searchsorted(self.client_of, clients)
        return list(zip(clients.tolist(), inside.tolist(), strict=True))

    def counts(self) -> Ints:
        """Return the number of slices of each client (row) in each group (column)."""
        cells = np.bincount(
            self.client_of * self.groups + self.group_of, minlength=self.clients * self.groups
        )
        return cells.reshape(self.clients, self.groups)

    def group_sizes(self) -> Ints:
        """Return the number of slices in each group."""
        return np.bincount(self.group_of, minlength=self.groups)


def objective(grouping: Grouping, embeddings: ArrayLike) -> float:
    """Return Eq. 1: the sum over groups of the squared distance of the group's mean from the global mean."""
    vectors = read_embeddings(embeddings, grouping.slices)
    if not grouping.group_sizes().all():
        raise InputError(f"objective: group {grouping.group_sizes().argmin()} has no slice, so no mean")
    return deviation(grouping.group_of, vectors, grouping.groups)


def deviation(group_of: Ints, vectors: Floats, groups: int) -> float:
    """Return Eq. 1 for a group of each slice and a vector of each slice."""
    sums = group_sums(group_of, vectors - vectors.mean(axis=0), groups)
    sizes = np.bincount(group_of, minlength=groups)
    return float(((sums / sizes[:, None]) ** 2).sum())


def group_sums(group_of: Ints, vectors: Floats, groups: int) -> Floats:
    """Return the sum of the slices' vectors of each group, one row for each."""
    # Stable, so that a group's vectors are always added in the same order and the sum has the same bits.
    order = np.argsort(group_of, kind="stable")
    starts = np.searchsorted(group_of[order], np.arange(groups))
    return np.add.reduceat(vectors[order], starts, axis=0)
