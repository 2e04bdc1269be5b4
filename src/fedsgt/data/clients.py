"""The clients of a run, from a table of records."""

import hashlib
from collections.abc import Sequence
from typing import Literal

import numpy as np

from fedsgt.data.client import Client
from fedsgt.data.fingerprints import derive_salt
from fedsgt.data.partition import Indices, partition_dirichlet, partition_given, partition_iid
from fedsgt.data.table import Table
from fedsgt.errors import InputError
from fedsgt.files.encoding import frames

# Two labels, ten clients and alpha 0.1 need some 150 draws; to give up takes seconds even on large data.
_MAX_DRAWS = 1000
_REMEDIES = {
    "iid": "lower grouping.slices or data.clients",
    "dirichlet": "lower grouping.slices or data.clients, or raise data.alpha",
    "given": "lower grouping.slices for this client",
}


def make_clients(
    table: Table,
    *,
    partition: Literal["iid", "dirichlet", "given"],
    clients: int,
    alpha: float,
    seed: int,
    slices: Sequence[int],
    known: Sequence[str] | None = None,
) -> tuple[Client, ...]:
    """The table's records dealt to clients, in the order of the clients' names.

    They are called client-0 and on, or as their owners for `given`; `slices` has one number for each, in that
    order. The order of the table's records does not matter. The clients of a run that is there already are
    `known`: of those some may have left, with all their records or all but a few.
    """
    if len(slices) != clients:
        raise InputError(f"grouping.slices has {len(slices)} values for {clients} clients; give one for each")
    records = table.records()
    order = sorted(range(len(table)), key=table.ids.__getitem__)
    if partition == "given":
        shares = _given(table, order, clients) if known is None else _known(table, order, known)
    else:
        _check_total(len(table), clients, sum(slices))
        parts = (
            partition_iid(len(table), clients, seed)
            if partition == "iid"
            else _dirichlet([table.labels[row] for row in order], alpha, seed, slices)
        )
        shares = list(zip(_client_names(clients), parts, strict=True))
    for (name, part), wanted in zip(shares, slices, strict=True) if known is None else ():
        _check_size(name, len(part), wanted, partition)
    return tuple(
        Client(
            name, tuple(records[order[i]] for i in part), wanted, f"{seed}/{name}", derive_salt(seed, name)
        )
        for (name, part), wanted in zip(shares, slices, strict=True)
    )


def _client_names(clients: int) -> list[str]:
    """Padded with zeros, so that the order of the texts is that of the numbers."""
    width = len(str(clients - 1))
    return [f"client-{index:0{width}d}" for index in range(clients)]


def _given(table: Table, order: Sequence[int], clients: int) -> list[tuple[str, Indices]]:
    if table.owners is None:
        raise InputError(
            "data.partition is given, but the records have no owners; "
            "set data.client_column, or data.partition to iid or dirichlet"
        )
    shares = partition_given([table.owners[row] for row in order])
    if len(shares) != clients:
        raise InputError(
            f"data.clients is {clients}, but the records have {len(shares)} owners; set it to that"
        )
    return shares


def _known(table: Table, order: Sequence[int], known: Sequence[str]) -> list[tuple[str, Indices]]:
    shares = dict(partition_given([table.owners[row] for row in order])) if table.owners else {}
    stranger = next((name for name in shares if name not in known), None)
    if stranger is not None:
        raise InputError(f"the records have an owner {stranger!r}, who is no client of this run")
    nothing: Indices = np.array([], dtype=np.int64)
    return [(name, shares.get(name, nothing)) for name in known]


def _dirichlet(labels: Sequence[int], alpha: float, seed: int, slices: Sequence[int]) -> list[Indices]:
    """The first draw that gives every client a record for each of its slices, else the one that came closest.

    The first of all is what flwr-datasets draws with that seed.
    """
    best: list[Indices] = []
    least_lack = sum(slices) + 1
    for draw in range(_MAX_DRAWS):
        parts = partition_dirichlet(labels, len(slices), alpha, _draw_seed(seed, draw), min_size=0)
        lack = sum(max(0, wanted - len(part)) for part, wanted in zip(parts, slices, strict=True))
        if lack < least_lack:
            best, least_lack = parts, lack
        if lack == 0:
            break
    return best


def _draw_seed(seed: int, draw: int) -> int:
    """Later draws have seeds that are no other run's first one by being next to it."""
    if draw == 0:
        return seed
    return int.from_bytes(hashlib.sha256(frames("fedsgt.partition.1", seed, draw)).digest())


def _check_total(records: int, clients: int, slices: int) -> None:
    if records < max(slices, clients):
        raise InputError(
            f"{records} records are too few for {clients} clients with {slices} slices in all; "
            "lower data.clients or grouping.slices, or raise data.limit if it is set"
        )


def _check_size(name: str, held: int, wanted: int, partition: str) -> None:
    if held < wanted:
        raise InputError(
            f"client {name} gets {held} records, fewer than its {wanted} slices; {_REMEDIES[partition]}"
        )
