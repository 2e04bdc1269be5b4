"""The input of a grouping method: slices of each client, number of groups and limits of the clients."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsgt.errors import InputError
from fedsgt.words import counted

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Labels = Sequence[object] | NDArray[np.generic]
Limits = int | Sequence[int | None] | NDArray[np.integer] | None


@dataclass(frozen=True, eq=False)
class Problem:
    """The constraints of the paper's Eq. 2 and 3. Slices are numbered through, client by client."""

    slices: Ints
    """Number of slices of each client (S_i)."""
    groups: int
    """Number of groups (L)."""
    limits: Ints
    """Most groups that each client may be in (B_i), and never more than min(S_i, L)."""
    names: tuple[str, ...] | None = None
    """Names of the clients, for messages; None if clients have numbers only."""

    @cached_property
    def total(self) -> int:
        """Number of all slices (M)."""
        return int(self.slices.sum())

    @cached_property
    def client_of(self) -> Ints:
        """Client of each slice."""
        return np.repeat(np.arange(len(self.slices)), self.slices)

    @cached_property
    def sizes(self) -> Ints:
        """Size of each group by Eq. 2: floor(M/L) slices, and one more in the first M mod L groups."""
        size, extra = divmod(self.total, self.groups)
        return np.where(np.arange(self.groups) < extra, size + 1, size)

    @cached_property
    def restricted(self) -> NDArray[np.bool_]:
        """Whether the limit of each client can bind at all."""
        return self.limits < np.minimum(self.slices, self.groups)

    @property
    def binding(self) -> bool:
        """Whether the limit of any client can bind."""
        return bool(self.restricted.any())

    def spread(self, group_of: Ints) -> Ints:
        """Return the number of distinct groups that each client is in."""
        # One number for each pair of client and group, so that one `unique` counts distinct pairs.
        pairs = np.unique(self.client_of * self.groups + group_of)
        return np.bincount(pairs // self.groups, minlength=len(self.slices))

    def within_limits(self, group_of: Ints) -> bool:
        """Return whether the assignment satisfies Eq. 3."""
        return not self.binding or bool((self.spread(group_of) <= self.limits).all())

    def name(self, client: int) -> str:
        """Return the name of the client, or its number if it has none."""
        return _name(client, self.names)


@dataclass(frozen=True, eq=False)
class Hints:
    """Input that only some methods look at; each method checks its own."""

    embeddings: ArrayLike | None = None
    clusters: Labels | None = None
    rates: ArrayLike | None = None
    updates: ArrayLike | None = None


def read_problem(
    slices: ArrayLike, groups: int, limits: Limits, names: Sequence[str] | None = None
) -> Problem:
    """Check the input, and that each client would fit if it were alone."""
    counts = read_slices(slices, names)
    # A bool is an Integral to Python, but True groups are a mistake.
    if not isinstance(groups, Integral) or isinstance(groups, bool):
        raise InputError(f"groups: {groups!r} is not a whole number")
    if not 1 <= groups <= counts.sum():
        raise InputError(f"groups: {groups} is not between 1 and the number of slices, {counts.sum()}")
    # A limit above S_i or L forbids nothing; cut to these, it shows at once whether it can bind.
    caps = np.minimum(np.minimum(counts, groups), read_limits(limits, len(counts), int(groups), names))
    problem = Problem(counts, int(groups), caps, None if names is None else tuple(names))
    check_each_client_alone(problem)
    return problem


def read_slices(slices: ArrayLike, names: Sequence[str] | None) -> Ints:
    """Return the number of slices of each client, checked."""
    counts = np.asarray(slices)
    if counts.ndim != 1 or counts.size == 0:
        raise InputError(f"slices: shape {counts.shape} is not one number of slices per client")
    if counts.dtype.kind not in "iu":
        raise InputError(f"slices: type {counts.dtype} is not whole numbers")
    if (counts < 1).any():
        client = int(np.argmax(counts < 1))  # the first of them
        raise InputError(
            f"client {_name(client, names)}: {counts[client]} slices, but each client needs at least 1"
        )
    return counts.astype(np.int64)


def read_limits(limits: Limits, clients: int, groups: int, names: Sequence[str] | None) -> Ints:
    """Return the limit of each client; a client without a limit has the limit L."""
    each = limits if isinstance(limits, Sequence | np.ndarray) else [limits] * clients
    if len(each) != clients:
        raise InputError(
            f"limits: {len(each)} given for {counted(clients, 'client')}, one per client is needed"
        )
    checked = [_one_limit(_name(client, names), limit, groups) for client, limit in enumerate(each)]
    return np.array(checked, dtype=np.int64)


def _name(client: int, names: Sequence[str] | None) -> str:
    return str(client) if names is None else names[client]


def _one_limit(client: str, limit: int | None, groups: int) -> int:
    """Return the limit of one client, checked; `client` is its name."""
    if limit is None:
        return groups
    if not isinstance(limit, Integral) or isinstance(limit, bool) or limit < 1:
        raise InputError(f"client {client}: limit {limit!r} is not a whole number of at least 1")
    return min(int(limit), groups)


def check_each_client_alone(problem: Problem) -> None:
    """Check that the B_i largest groups together have room for the slices of client i."""
    # Groups come largest first, so the first B_i of them are the B_i largest.
    room = np.concatenate([[0], np.cumsum(problem.sizes)])
    too_small = room[problem.limits] < problem.slices
    if too_small.any():
        raise InputError(_does_not_fit(problem, int(np.argmax(too_small))))


def _does_not_fit(problem: Problem, client: int) -> str:
    """Say why the client cannot be grouped even alone."""
    limit, largest = int(problem.limits[client]), int(problem.sizes[0])
    # With uneven sizes the message says how many groups have the larger one, or the sum would seem wrong.
    full = int((problem.sizes == largest).sum())
    only = (
        f" (only {full} of the groups can hold {largest}, the others {largest - 1})" if full < limit else ""
    )
    return (
        f"client {problem.name(client)}: {problem.slices[client]} slices do not fit into "
        f"{counted(limit, 'group')} of at most {largest}{only}; raise its limit"
    )


def read_embeddings(embeddings: ArrayLike | None, slices: int) -> Floats:
    """Return one vector for each slice, checked."""
    return read_vectors("embeddings", embeddings, "slice", slices)


def read_vectors(name: str, given: ArrayLike | None, owner: str, count: int) -> Floats:
    """Return one finite vector for each owner, which is a slice or a client, checked."""
    if given is None:
        raise InputError(f"{name}: none given, but this method needs one vector per {owner}")
    try:
        vectors = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: not an array of numbers, one row per {owner}") from error
    if vectors.ndim != 2 or vectors.shape[0] != count or vectors.shape[1] < 1:
        raise InputError(f"{name}: shape {vectors.shape}, but one row for each of {count} {owner}s is needed")
    if not np.isfinite(vectors).all():
        # Name the first bad row, so that its owner can be found.
        row = int(np.argmin(np.isfinite(vectors).all(axis=1)))
        raise InputError(f"{name}: row {row} ({owner} {row}) holds a value that is not finite")
    return vectors
