"""A plan: which modules to train, as a forest, with its costs and its exact scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsgt.errors import InputError
from fedsgt.plans.scoring import scores
from fedsgt.plans.scoring.montecarlo import Estimate
from fedsgt.plans.scoring.subsets import mask_of
from fedsgt.window import Window, groups_used
from fedsgt.words import counted

# Groups in the order in which they are trained; a sequence is the prefix of its last module.
Prefix = tuple[int, ...]
NO_MODULES = "none"
"""Kind of the plan that trains nothing."""
# A prior whose values differ by less is uniform.
ROUNDING = 1e-15
# Clients times modules in one table, to bound memory.
CELLS = 20_000_000


@dataclass(frozen=True)
class PlannedModule:
    """A module to train."""

    group: int
    """Group that it adds to the prefix of its parent."""
    parent: int
    """Index of the parent among the plan's modules; -1 for a root."""
    prefix: Prefix
    """Groups that it depends on, in order."""

    @property
    def depth(self) -> int:
        """Number of groups in its prefix."""
        return len(self.prefix)


@dataclass(frozen=True)
class Plan:
    """The sequences to train over groups 0..L-1, and the forest in which equal prefixes are one module."""

    kind: str
    """Name of the kind of plan."""
    groups: int
    """Number of groups (L)."""
    sequences: tuple[Prefix, ...]
    """Orders of groups; a sequence need not hold all groups."""
    modules: tuple[PlannedModule, ...] = field(repr=False, compare=False)
    """Modules to train, parents before children."""
    window: Window = None
    """How much of its prefix a module trains on."""

    @classmethod
    def of(cls, kind: str, groups: int, sequences: Iterable[Iterable[int]], window: Window = None) -> Plan:
        """Make the plan of these sequences; modules come in the order in which they are first needed."""
        paths = tuple(tuple(sequence) for sequence in sequences)
        _check(kind, groups, paths)
        index: dict[Prefix, int] = {}
        modules: list[PlannedModule] = []
        # Parents come before children, because a prefix is entered before it is extended.
        for path in paths:
            for depth in range(1, len(path) + 1):
                prefix = path[:depth]
                if prefix not in index:
                    index[prefix] = len(modules)
                    modules.append(PlannedModule(path[depth - 1], index.get(prefix[:-1], -1), prefix))
        return cls(kind, groups, paths, tuple(modules), window)

    def with_window(self, window: Window) -> Plan:
        """Return the plan with another window."""
        return replace(self, window=window)

    @property
    def passes(self) -> float:
        """Training cost in passes over the data: a module at depth d trains on d of the L groups.

        With a window of m groups it costs as much as m of them at most.
        """
        return sum(groups_used(module.depth, self.window) for module in self.modules) / self.groups

    @property
    def roots(self) -> tuple[int, ...]:
        """Groups that some sequence starts with; if all of them are hit, no module is live."""
        return tuple(sorted({path[0] for path in self.sequences}))

    @cached_property
    def sets(self) -> dict[int, int]:
        """Sets of groups that are trained, as bit masks, each with its size."""
        return {mask_of(module.prefix): module.depth for module in self.modules}

    @overload
    def expected_live(self, requests: int, prior: ArrayLike | None = None) -> Estimate: ...
    @overload
    def expected_live(self, requests: Sequence[int], prior: ArrayLike | None = None) -> list[Estimate]: ...
    def expected_live(
        self, requests: int | Sequence[int], prior: ArrayLike | None = None
    ) -> Estimate | list[Estimate]:
        """Return E[groups behind the longest live prefix] after so many independent requests (LongSeq).

        `prior` is the chance of each group to be hit by a request (uniform by default). Exact up to 20
        groups; beyond that a Monte Carlo estimate, whose `stderr` is not zero. In a plan of several shards
        it is the longest prefix of any of them, and not the sum over shards.
        """
        return _each(requests, lambda counts: scores.expected_live(self, counts, self._prior(prior)))

    @overload
    def survival(self, requests: int, prior: ArrayLike | None = None) -> Estimate: ...
    @overload
    def survival(self, requests: Sequence[int], prior: ArrayLike | None = None) -> list[Estimate]: ...
    def survival(
        self, requests: int | Sequence[int], prior: ArrayLike | None = None
    ) -> Estimate | list[Estimate]:
        """Return P(at least one live module) after so many independent requests."""
        return _each(requests, lambda counts: scores.survival(self, counts, self._prior(prior)))

    def deletion_rate(self, prior: ArrayLike | None = None) -> float:
        """Return the expected requests up to and with the exhausting one; infinite if no request can.

        It is 0 for a plan without modules.
        """
        return scores.deletion_rate(self, self._prior(prior))

    def takes_part(self, counts: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether each client (row) trains each module (column): it has a slice of some group.

        `counts` says how many slices each client (row) has in each group (column).
        """
        if counts.ndim != 2 or counts.shape[1] != self.groups:
            raise InputError(
                f"counts: shape {counts.shape}; the plan needs clients x {counted(self.groups, 'group')}"
            )
        # Modules as rows while this is built, so that each step works on contiguous memory.
        member = np.ascontiguousarray(counts.T > 0)
        part = np.zeros((len(self.modules), counts.shape[0]), dtype=np.bool_)
        for index, module in enumerate(self.modules):
            part[index] = member[module.group]
            # A client that trains the parent trains this module too: data are cumulative (definition 4),
            # unless each module trains on its own group alone.
            if module.parent >= 0 and self.window != "own":
                part[index] |= part[module.parent]
        return part.T

    def client_rounds(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rounds that each client takes part in, at one round for each module."""
        return self._by_client(counts, self.takes_part)

    def client_downloads(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the frozen modules that each client must fetch once: the ancestors of those it trains."""
        return self._by_client(counts, self._fetches)

    def _fetches(self, counts: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether each client (row) must fetch each module (column)."""
        needed = self.takes_part(counts).T
        fetched = np.zeros_like(needed)
        for index in range(len(self.modules) - 1, -1, -1):  # children before parents
            parent = self.modules[index].parent
            if parent >= 0:
                fetched[parent] |= needed[index] | fetched[index]
        return fetched.T

    def _by_client(
        self, counts: NDArray[np.int64], table: Callable[[NDArray[np.int64]], NDArray[np.bool_]]
    ) -> NDArray[np.int64]:
        """Return the row sums of a table of clients by modules, made part by part to bound memory."""
        step = max(1, CELLS // max(1, len(self.modules)))
        parts = [table(counts[start : start + step]).sum(axis=1) for start in range(0, len(counts), step)]
        return np.concatenate(parts)

    def _prior(self, prior: ArrayLike | None) -> NDArray[np.float64] | None:
        """Check the prior; return None if it is uniform, because scores are then exact rationals."""
        chances = None if prior is None else check_prior(prior, self.groups)
        return None if chances is None or np.ptp(chances) < ROUNDING else chances


def _each(requests: int | Sequence[int], score: scores.Curve) -> Estimate | list[Estimate]:
    """Check the numbers of requests, and score each; one number gives one estimate, not a list."""
    counts = list(requests) if isinstance(requests, Iterable) else [requests]
    for count in counts:
        # A bool is an int to Python, but True requests are a mistake.
        if not isinstance(count, (int, np.integer)) or isinstance(count, bool) or count < 0:
            raise InputError(f"requests: {count!r} is not a whole number of at least 0")
    values = score(counts) if counts else []
    return values if isinstance(requests, Iterable) else values[0]


def check_prior(prior: ArrayLike, length: int, what: str = "group") -> NDArray[np.float64]:
    """Return the prior as an array that sums to 1, checked."""
    try:
        array = np.asarray(prior, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"prior: {prior!r} is not a list of numbers") from None
    if array.ndim != 1:
        raise InputError(
            f"prior: an array of {array.ndim} dimensions; give a list with one value for each {what}"
        )
    if array.shape != (length,):
        raise InputError(
            f"prior: {counted(array.size, 'value')} for {counted(length, what)}; give one for each {what}"
        )
    if not np.isfinite(array).all() or (array < 0).any():
        raise InputError(f"prior: {array.tolist()} holds a value that is negative or not finite")
    # Values read from a file are rounded, so a small difference is forgiven and then divided out.
    if abs(array.sum() - 1) > 1e-6:
        raise InputError(f"prior: the values sum to {array.sum():.6g}; they must sum to 1")
    chances: NDArray[np.float64] = array / array.sum()
    return chances


def _check(kind: str, groups: int, paths: tuple[Prefix, ...]) -> None:
    """Check that there is a sequence unless nothing is to be trained, and that each has distinct groups."""
    if not paths and kind != NO_MODULES:
        raise InputError("plan: no sequence; at least one is needed")
    for path in paths:
        if not path or len(set(path)) != len(path) or not all(0 <= group < groups for group in path):
            raise InputError(
                f"plan: sequence {list(path)} is not an order of distinct groups 0..{groups - 1}"
            )
