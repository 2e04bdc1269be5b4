"""Deal records to clients: evenly at random, skewed by label, or to the owners that the source names."""

import hashlib
import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsgt.data.client import Client
from fedsgt.data.dataset import Dataset
from fedsgt.data.records import Record, labels_of, sorted_records
from fedsgt.errors import InputError
from fedsgt.files.encoding import frames
from fedsgt.words import counted

Indices: TypeAlias = NDArray[np.int64]
# A client's name and its records.
Share: TypeAlias = tuple[str, Sequence[Record]]

# Two labels, ten clients and alpha 0.1 need some 150 draws; giving up takes seconds even on large data.
_MAX_DRAWS = 1000
_REMEDIES = {
    "iid": "lower grouping.slices or data.clients",
    "dirichlet": "lower grouping.slices or data.clients, or raise data.alpha",
    "given": "lower grouping.slices for this client",
}


def make_clients(
    dataset: Dataset,
    *,
    partition: Literal["iid", "dirichlet", "given"],
    clients: int,
    alpha: float,
    seed: int,
    slices: Sequence[int],
    known: Sequence[str] | None = None,
) -> tuple[Client, ...]:
    """Deal the records to clients and return these in the order of their names.

    They are called client-0 and so on, or as their owners if `partition` is "given". `slices` has one number
    for each client, in that order. The order of the records does not matter. `known` names the clients of a
    run that exists already: some of them may have left, with all their records or all but a few.
    """
    if len(slices) != clients:
        raise InputError(
            f"grouping.slices has {counted(len(slices), 'value')} for {counted(clients, 'client')}; give "
            "one for each"
        )
    # Partitions deal out positions, so records must stand in one order whatever the file's was.
    records = sorted_records(dataset.records)
    if partition != "given":
        shares = _dealt(records, partition, clients, alpha, seed, slices)
    elif known is None:
        shares = _by_owner(records, clients)
    else:
        shares = _by_known_owner(records, known)
    # A known run passed this check when it was new; deletions may have left fewer records than slices.
    for (name, part), wanted in zip(shares, slices, strict=True) if known is None else ():
        _check_size(name, len(part), wanted, partition)
    return tuple(
        Client.simulated(name, part, wanted, seed)
        for (name, part), wanted in zip(shares, slices, strict=True)
    )


def partition_iid(count: int, clients: int, seed: int) -> list[Indices]:
    """Cut a seeded permutation of 0..count-1 evenly: sizes differ by at most one, larger ones first."""
    _check_clients(clients, count)
    order = _generator(seed).permutation(count).astype(np.int64, copy=False)
    return [part.copy() for part in np.array_split(order, clients)]


def partition_dirichlet(labels: Sequence[int], clients: int, alpha: float, seed: int) -> list[Indices]:
    """Share out each label's records by Dirichlet(alpha) proportions; a small alpha gives skewed clients.

    The result is, index for index, that of DirichletPartitioner of flwr-datasets 0.6.1 with the same seed,
    min_partition_size=0 and self_balancing=False.
    """
    codes = _label_codes(labels)
    _check_clients(clients, len(codes))
    if not math.isfinite(alpha) or alpha <= 0:
        raise InputError(f"alpha is {alpha}; allowed: positive and finite")
    rng = _generator(seed)
    parts = _hand_out(codes, _dirichlet_counts(rng, np.bincount(codes), np.full(clients, float(alpha))))
    # Shuffled by the same generator and after all labels are dealt, as in flwr-datasets.
    for part in parts:
        rng.shuffle(part)
    return parts


def _dealt(
    records: Sequence[Record],
    partition: Literal["iid", "dirichlet"],
    clients: int,
    alpha: float,
    seed: int,
    slices: Sequence[int],
) -> list[Share]:
    """Return the records dealt at random to clients that the source does not know."""
    _check_total(len(records), clients, sum(slices))
    if partition == "iid":
        parts = partition_iid(len(records), clients, seed)
    else:
        parts = _large_enough_dirichlet(labels_of(records), alpha, seed, slices)
    dealt = [[records[index] for index in part] for part in parts]
    return list(zip(_client_names(clients), dealt, strict=True))


def _client_names(clients: int) -> list[str]:
    """Return names padded with zeros, so that they sort as their numbers."""
    width = len(str(clients - 1))
    return [f"client-{index:0{width}d}" for index in range(clients)]


def _by_owner(records: Sequence[Record], clients: int) -> list[Share]:
    shares = _records_by_owner(records)
    if len(shares) != clients:
        raise InputError(
            f"data.clients is {clients}, but the records have {len(shares)} owners; leave it out"
        )
    return sorted(shares.items())


def _by_known_owner(records: Sequence[Record], known: Sequence[str]) -> list[Share]:
    shares = _records_by_owner(records)
    # A client of the run that has no record left is fine; an owner that is no client of the run is not.
    stranger = next((name for name in sorted(shares) if name not in known), None)
    if stranger is not None:
        raise InputError(f"the records have an owner {stranger!r}, who is no client of this run")
    return [(name, shares.get(name, ())) for name in known]


def _records_by_owner(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Return the records of each owner; raise `InputError` if a record has none, since it would be lost."""
    shares: dict[str, list[Record]] = {}
    for record in records:
        if record.owner is None:
            raise InputError(
                "data.partition is given, but the records have no owners; "
                "set data.client_column, or data.partition to iid or dirichlet"
            )
        shares.setdefault(record.owner, []).append(record)
    return shares


def _large_enough_dirichlet(
    labels: Sequence[int], alpha: float, seed: int, slices: Sequence[int]
) -> list[Indices]:
    """Return the first draw that gives every client a record for each slice, or else the closest draw.

    The first of all is what flwr-datasets draws with that seed.
    """
    best: list[Indices] = []
    least_lack = sum(slices) + 1
    for draw in range(_MAX_DRAWS):
        parts = partition_dirichlet(labels, len(slices), alpha, _draw_seed(seed, draw))
        lack = sum(max(0, wanted - len(part)) for part, wanted in zip(parts, slices, strict=True))
        if lack < least_lack:
            best, least_lack = parts, lack
        if lack == 0:
            break
    return best


def _draw_seed(seed: int, draw: int) -> int:
    """Return the seed of a draw; hashed after the first, so that it is not the first seed of another run."""
    if draw == 0:
        return seed
    return int.from_bytes(hashlib.sha256(frames("fedsgt.partition.1", seed, draw)).digest())


def _dirichlet_counts(rng: np.random.Generator, totals: Indices, alpha: NDArray[np.float64]) -> Indices:
    """Draw how many records of each label (row) each client (column) gets."""
    counts = np.zeros((len(totals), len(alpha)), dtype=np.int64)
    for row, total in zip(counts, totals, strict=True):
        # Cuts are rounded down, and the last client takes the rest, as in flwr-datasets.
        cuts = (np.cumsum(rng.dirichlet(alpha)) * total).astype(np.int64)[:-1]
        row[:] = np.diff(cuts, prepend=0, append=total)
    return counts


def _hand_out(codes: Indices, counts: Indices) -> list[Indices]:
    """Return each client's indices: label by label, rising within a label, cut in the clients' order."""
    # Stable sorts keep indices rising within a label; flwr-datasets hands them out in that order.
    by_label = np.argsort(codes, kind="stable")
    owners = np.repeat(np.tile(np.arange(counts.shape[1]), counts.shape[0]), counts.ravel())
    by_client = by_label[np.argsort(owners, kind="stable")].astype(np.int64, copy=False)
    ends = np.cumsum(counts.sum(axis=0))[:-1]
    return [part.copy() for part in np.split(by_client, ends)]


def _label_codes(labels: Sequence[int]) -> Indices:
    """Return the labels as 0..K-1 in their sorted order."""
    values: NDArray[Any] = np.asarray(labels)
    if values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
        shape = "x".join(map(str, values.shape))
        raise InputError(f"labels are {values.dtype} of shape {shape}; allowed: one integer per record")
    return np.unique(values, return_inverse=True)[1].astype(np.int64, copy=False)


def _generator(seed: int) -> np.random.Generator:
    if not isinstance(seed, int) or seed < 0:
        raise InputError(f"seed is {seed!r}; allowed: a whole number of at least 0")
    return np.random.default_rng(seed)


def _check_clients(clients: int, count: int) -> None:
    if not isinstance(clients, int) or clients < 1 or clients > count:
        raise InputError(
            f"{clients!r} clients for {counted(count, 'record')}; allowed: at least 1 client and 1 record "
            "for each"
        )


def _check_total(records: int, clients: int, slices: int) -> None:
    if records < max(slices, clients):
        raise InputError(
            f"{counted(records, 'record')} {'is' if records == 1 else 'are'} too few for "
            f"{counted(clients, 'client')} with {counted(slices, 'slice')} in all; "
            "lower data.clients or grouping.slices, or raise data.limit if it is set"
        )


def _check_size(name: str, held: int, wanted: int, partition: str) -> None:
    if held < wanted:
        raise InputError(
            f"client {name} gets {counted(held, 'record')}, fewer than its {counted(wanted, 'slice')}; "
            f"{_REMEDIES[partition]}"
        )
