"""Which client holds which record: evenly at random, skewed by label, or as the data says."""

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedsgt.errors import InputError

Indices: TypeAlias = NDArray[np.int64]
Owner = TypeVar("Owner", int, str)

# flwr-datasets draws once, then again up to ten times.
_MAX_DRAWS = 11


def partition_iid(count: int, clients: int, seed: int) -> list[Indices]:
    """A seeded permutation of 0..count-1 cut evenly: sizes differ by at most one, larger ones first."""
    _check_clients(clients, count)
    order = _generator(seed).permutation(count).astype(np.int64, copy=False)
    return [part.copy() for part in np.array_split(order, clients)]


def partition_dirichlet(
    labels: Sequence[int] | NDArray[np.integer[Any]],
    clients: int,
    alpha: float | Sequence[float] | NDArray[np.floating[Any]],
    seed: int,
    *,
    min_size: int = 10,
    self_balancing: bool = False,
    shuffle: bool = True,
) -> list[Indices]:
    """Each label's records shared out by Dirichlet(alpha) proportions; small alpha, skewed clients.

    Same result, index for index, as DirichletPartitioner of flwr-datasets 0.6.1 with the same arguments. With
    `self_balancing`, a client that holds more than its fair share gets nothing of the labels still to come.
    """
    codes = _label_codes(labels)
    _check_clients(clients, len(codes))
    concentration = _concentration(alpha, clients)
    _check_min_size(min_size, clients, len(codes))
    rng = _generator(seed)
    counts = _large_enough_draw(rng, np.bincount(codes), concentration, min_size, self_balancing)
    parts = _hand_out(codes, counts)
    if shuffle:
        for part in parts:
            rng.shuffle(part)
    return parts


def partition_given(owners: Sequence[Owner] | NDArray[Any]) -> list[tuple[Owner, Indices]]:
    """Clients as the data has them, one owner per record: sorted distinct owners, each with its indices."""
    values: list[Owner] = owners.tolist() if isinstance(owners, np.ndarray) else list(owners)
    kinds = {type(value) for value in values}
    if kinds not in ({int}, {str}):
        names = ", ".join(sorted(kind.__name__ for kind in kinds)) or "missing"
        raise InputError(f"owners are {names}; allowed: one owner per record, all int or all str")
    found: dict[Owner, list[int]] = {}
    for index, owner in enumerate(values):
        found.setdefault(owner, []).append(index)
    return [(owner, np.array(found[owner], dtype=np.int64)) for owner in sorted(found)]


def _large_enough_draw(
    rng: np.random.Generator, totals: Indices, alpha: NDArray[np.float64], min_size: int, self_balancing: bool
) -> Indices:
    """Counts per label and client of the first draw that leaves no client below the minimum."""
    best = 0
    for _ in range(_MAX_DRAWS):
        counts = _draw(rng, totals, alpha, self_balancing)
        smallest = int(counts.sum(axis=0).min())
        if smallest >= min_size:
            return counts
        best = max(best, smallest)
    raise InputError(
        f"in {_MAX_DRAWS} Dirichlet draws the smallest client got at most {best} records, below the minimum "
        f"size {min_size}; raise alpha, lower the minimum size, use fewer clients or another seed"
    )


def _draw(
    rng: np.random.Generator, totals: Indices, alpha: NDArray[np.float64], self_balancing: bool
) -> Indices:
    """One draw: how many records of each label (row) each client (column) gets."""
    fair_share = totals.sum() / len(alpha)
    counts = np.zeros((len(totals), len(alpha)), dtype=np.int64)
    held = np.zeros(len(alpha), dtype=np.int64)
    for row, total in zip(counts, totals, strict=True):
        shares = rng.dirichlet(alpha)
        if self_balancing:
            shares = _skip_full_clients(shares, held > fair_share)
        cuts = (np.cumsum(shares) * total).astype(np.int64)[:-1]
        row[:] = np.diff(cuts, prepend=0, append=total)
        held += row
    return counts


def _skip_full_clients(shares: NDArray[np.float64], full: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Proportions over the clients that are not full.

    The sum is a running one, since pairwise summation could round to another cut. Where full clients had all
    of the mass, zeros stay zeros and the last client gets the label, which is what flwr-datasets comes to.
    """
    kept = np.where(full, 0.0, shares)
    total = np.cumsum(kept)[-1]
    return kept / total if total > 0 else kept


def _hand_out(codes: Indices, counts: Indices) -> list[Indices]:
    """Indices per client: label by label, rising within a label, each label cut in the clients' order."""
    by_label = np.argsort(codes, kind="stable")
    owners = np.repeat(np.tile(np.arange(counts.shape[1]), counts.shape[0]), counts.ravel())
    by_client = by_label[np.argsort(owners, kind="stable")].astype(np.int64, copy=False)
    ends = np.cumsum(counts.sum(axis=0))[:-1]
    return [part.copy() for part in np.split(by_client, ends)]


def _label_codes(labels: Sequence[int] | NDArray[np.integer[Any]]) -> Indices:
    """Labels as 0..K-1 in their sorted order."""
    values = np.asarray(labels)
    if values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
        shape = "x".join(map(str, values.shape))
        raise InputError(f"labels are {values.dtype} of shape {shape}; allowed: one integer per record")
    return np.unique(values, return_inverse=True)[1].astype(np.int64, copy=False)


def _concentration(
    alpha: float | Sequence[float] | NDArray[np.floating[Any]], clients: int
) -> NDArray[np.float64]:
    try:
        values = np.asarray(alpha, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"alpha is {alpha!r}; allowed: a positive number, or one per client") from error
    if values.ndim == 0:
        values = np.full(clients, values)
    if values.shape != (clients,):
        raise InputError(f"alpha has shape {values.shape}; allowed: a number, or {clients}, one per client")
    if not (np.isfinite(values) & (values > 0)).all():
        raise InputError(f"alpha has {values.min()} as its least value; allowed: positive and finite")
    return values


def _check_clients(clients: int, count: int) -> None:
    if not isinstance(clients, int) or clients < 1 or clients > count:
        raise InputError(
            f"{clients!r} clients for {count} records; allowed: at least 1 client and 1 record for each"
        )


def _check_min_size(min_size: int, clients: int, count: int) -> None:
    if min_size < 0 or min_size * clients > count:
        raise InputError(
            f"minimum size {min_size} for {clients} clients and {count} records; "
            f"allowed: 0 to {count // clients}"
        )


def _generator(seed: int) -> np.random.Generator:
    if not isinstance(seed, int) or seed < 0:
        raise InputError(f"seed is {seed!r}; allowed: a whole number of at least 0")
    return np.random.default_rng(seed)
