"""What a grouping method is given: slices per client, the number of groups, and per-client limits."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsgt.errors import InputError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Labels = Sequence[object] | NDArray[np.generic]
Limits = int | Sequence[int | None] | NDArray[np.integer] | None


@dataclass(frozen=True, eq=False)
class Problem:
    """The constraints of the paper's Eq. 2-3. Slices are numbered flat, client by client.

    `limits` is already cut to what can matter: client i is never in more than min(S_i, L) groups.
    """

    slices: Ints
    groups: int
    limits: Ints

    @cached_property
    def total(self) -> int:
        """M, the number of all slices."""
        return int(self.slices.sum())

    @cached_property
    def client_of(self) -> Ints:
        return np.repeat(np.arange(len(self.slices)), self.slices)

    @cached_property
    def sizes(self) -> Ints:
        """Eq. 2: floor(M/L) slices per group, and one more in each of the first M mod L groups."""
        size, extra = divmod(self.total, self.groups)
        return np.where(np.arange(self.groups) < extra, size + 1, size)

    @cached_property
    def restricted(self) -> NDArray[np.bool_]:
        """The clients whose limit can bind at all."""
        return self.limits < np.minimum(self.slices, self.groups)

    @property
    def binding(self) -> bool:
        return bool(self.restricted.any())

    def spread(self, group_of: Ints) -> Ints:
        """In how many distinct groups each client is."""
        pairs = np.unique(self.client_of * self.groups + group_of)
        return np.bincount(pairs // self.groups, minlength=len(self.slices))

    def within_limits(self, group_of: Ints) -> bool:
        """Eq. 3."""
        return not self.binding or bool((self.spread(group_of) <= self.limits).all())


@dataclass(frozen=True, eq=False)
class Hints:
    """What only some methods look at. Each method checks its own."""

    embeddings: ArrayLike | None = None
    clusters: Labels | None = None
    rates: ArrayLike | None = None
    updates: ArrayLike | None = None


def read_problem(slices: ArrayLike, groups: int, limits: Limits) -> Problem:
    """Check the input, and that every client fits when it is alone."""
    counts = read_slices(slices)
    if not isinstance(groups, Integral) or isinstance(groups, bool):
        raise InputError(f"groups: {groups!r} is not a whole number")
    if not 1 <= groups <= counts.sum():
        raise InputError(f"groups: {groups} is not between 1 and the number of slices, {counts.sum()}")
    caps = np.minimum(np.minimum(counts, groups), read_limits(limits, len(counts), int(groups)))
    problem = Problem(counts, int(groups), caps)
    check_each_client_alone(problem)
    return problem


def read_slices(slices: ArrayLike) -> Ints:
    counts = np.asarray(slices)
    if counts.ndim != 1 or counts.size == 0:
        raise InputError(f"slices: shape {counts.shape} is not one number of slices per client")
    if counts.dtype.kind not in "iu":
        raise InputError(f"slices: type {counts.dtype} is not whole numbers")
    if (counts < 1).any():
        client = int(np.argmax(counts < 1))
        raise InputError(f"client {client}: {counts[client]} slices, but each client needs at least 1")
    return counts.astype(np.int64)


def read_limits(limits: Limits, clients: int, groups: int) -> Ints:
    """One limit per client; no limit is the same as the limit L."""
    each = limits if isinstance(limits, Sequence | np.ndarray) else [limits] * clients
    if len(each) != clients:
        raise InputError(f"limits: {len(each)} given for {clients} clients, one per client is needed")
    return np.array([_one_limit(client, limit, groups) for client, limit in enumerate(each)], dtype=np.int64)


def _one_limit(client: int, limit: int | None, groups: int) -> int:
    if limit is None:
        return groups
    if not isinstance(limit, Integral) or isinstance(limit, bool) or limit < 1:
        raise InputError(f"client {client}: limit {limit!r} is not a whole number of at least 1")
    return min(int(limit), groups)


def check_each_client_alone(problem: Problem) -> None:
    """The B_i largest groups together must have room for client i's slices."""
    room = np.concatenate([[0], np.cumsum(problem.sizes)])
    too_small = room[problem.limits] < problem.slices
    if too_small.any():
        raise InputError(_does_not_fit(problem, int(np.argmax(too_small))))


def _does_not_fit(problem: Problem, client: int) -> str:
    limit, largest = int(problem.limits[client]), int(problem.sizes[0])
    full = int((problem.sizes == largest).sum())
    only = (
        f" (only {full} of the groups can hold {largest}, the others {largest - 1})" if full < limit else ""
    )
    groups = "1 group" if limit == 1 else f"{limit} groups"
    slices = problem.slices[client]
    return f"client {client}: {slices} slices do not fit into {groups} of at most {largest}{only}"


def read_embeddings(embeddings: ArrayLike | None, slices: int) -> Floats:
    return read_vectors("embeddings", embeddings, "slice", slices)


def read_vectors(name: str, given: ArrayLike | None, owner: str, count: int) -> Floats:
    """One finite vector per owner: per slice or per client."""
    if given is None:
        raise InputError(f"{name}: none given, but this method needs one vector per {owner}")
    try:
        vectors = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: not an array of numbers, one row per {owner}") from error
    if vectors.ndim != 2 or vectors.shape[0] != count or vectors.shape[1] < 1:
        raise InputError(f"{name}: shape {vectors.shape}, but one row for each of {count} {owner}s is needed")
    if not np.isfinite(vectors).all():
        row = int(np.argmin(np.isfinite(vectors).all(axis=1)))
        raise InputError(f"{name}: row {row} ({owner} {row}) holds a value that is not finite")
    return vectors
