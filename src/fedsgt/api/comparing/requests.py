"""Streams of deletion requests, the same for every system: each names some records of one client.

Which records those are is decided by the clients and slices of the common configuration. Systems cut other
slices, or deal the records to other clients, and get the same records to delete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from fedsgt.data import Client
from fedsgt.errors import InputError
from fedsgt.files.encoding import seed_of
from fedsgt.unlearning.request import Deletion

AnyStream: TypeAlias = str | Sequence[Deletion | tuple[str, Sequence[str]]]
"""Name of a kind of stream, or the requests themselves."""
SHARE = 10  # the paper's 100 records are a tenth of a slice


@dataclass(frozen=True)
class Request:
    """Deletion of these records of a client of the common configuration."""

    client: str
    records: tuple[str, ...]

    def deletions(self, owners: Mapping[str, str] | None) -> list[Deletion]:
        """Return the request to a system; `owners` names the owner of each record if it has other clients."""
        if owners is None:
            return [Deletion(self.client, self.records)]
        held: dict[str, list[str]] = {}
        for record in self.records:
            held.setdefault(owners[record], []).append(record)
        return [Deletion(client, tuple(records)) for client, records in sorted(held.items())]


def check_stream(stream: AnyStream) -> list[str]:
    """Return what can be said against a stream before any record is read."""
    if isinstance(stream, str):
        return [] if stream in KINDS else [f"stream: {stream!r} is unknown; one of {', '.join(KINDS)}"]
    if not isinstance(stream, Sequence) or not stream:
        return [f"stream: {stream!r} is no stream; one of {', '.join(KINDS)}, or a list of requests"]
    return [
        f"stream: request {number} is {one!r}; allowed: a Deletion, or a client's name and a list of ids"
        for number, one in enumerate(stream, start=1)
        if not isinstance(one, Deletion) and not _is_pair(one)
    ]


def _is_pair(value: Any) -> bool:
    if not isinstance(value, tuple | list) or len(value) != 2 or not isinstance(value[0], str):
        return False
    ids = value[1]
    return isinstance(ids, list | tuple) and bool(ids) and all(isinstance(one, str) for one in ids)


def make_stream(stream: AnyStream, clients: Sequence[Client], count: int, seed: int) -> list[Request]:
    """Return the requests to these clients: at most `count` that are drawn, or all that were given."""
    if isinstance(stream, str):
        rng = np.random.default_rng(seed_of("compare", stream, seed))
        return KINDS[stream](rng, clients, count)
    return _given(stream, {client.name: client for client in clients})


def _slices(rng: np.random.Generator, clients: Sequence[Client], count: int) -> list[Request]:
    """Draw the paper's requests: each deletes a tenth of a slice, all slices equally likely, repeatedly."""
    left = [(client.name, [record.id for record in part]) for client in clients for part in client.cut()]
    portions = [max(1, len(ids) // SHARE) for _, ids in left]
    found: list[Request] = []
    while len(found) < count:
        open_slices = [number for number, (_, ids) in enumerate(left) if ids]
        if not open_slices:
            break
        number = open_slices[rng.integers(len(open_slices))]
        name, ids = left[number]
        taken, ids[:] = ids[: portions[number]], ids[portions[number] :]
        found.append(Request(name, tuple(taken)))
    return found


def _clients(rng: np.random.Generator, clients: Sequence[Client], count: int) -> list[Request]:
    """Draw whole clients, one after another; there are at most as many requests as clients with records."""
    held = [client for client in clients if client.records]
    order = rng.permutation(len(held))[:count].tolist()
    return [Request(held[number].name, tuple(one.id for one in held[number].records)) for number in order]


def _records(rng: np.random.Generator, clients: Sequence[Client], count: int) -> list[Request]:
    """Draw single records, all equally likely, each once."""
    every = [(client.name, record.id) for client in clients for record in client.records]
    order = rng.permutation(len(every))[:count].tolist()
    return [Request(every[number][0], (every[number][1],)) for number in order]


KINDS = {"slices": _slices, "clients": _clients, "records": _records}


def _given(stream: Sequence[Any], clients: Mapping[str, Client]) -> list[Request]:
    """Return the requests that were given, as records of the common configuration's clients."""
    found, gone = list[Request](), set[tuple[str, str]]()
    for number, one in enumerate(stream, start=1):
        asked = one if isinstance(one, Deletion) else Deletion(one[0], tuple(one[1]))
        if asked.client not in clients:
            names = ", ".join(list(clients)[:5]) + (", ..." if len(clients) > 5 else "")
            raise InputError(
                f"stream: request {number}: no client is called {asked.client!r}; there are {names}"
            )
        ids = _ids(asked, clients[asked.client], number)
        new = [name for name in dict.fromkeys(ids) if (asked.client, name) not in gone]
        # Single records that are named twice are a mistake; slices and clients mean what is left of them.
        if not new or (asked.records is not None and len(new) < len(set(ids))):
            raise InputError(
                f"stream: request {number}: records of client {asked.client} that an earlier request deletes"
            )
        gone |= {(asked.client, name) for name in new}
        found.append(Request(asked.client, tuple(new)))
    return found


def _ids(asked: Deletion, client: Client, number: int) -> list[str]:
    known = {record.id for record in client.records}
    if asked.records is not None:
        for name in asked.records:
            if name not in known:
                raise InputError(f"stream: request {number}: client {client.name} has no record {name!r}")
        return list(asked.records)
    parts = client.cut()
    for index in asked.slices or ():
        if not 0 <= index < len(parts):
            raise InputError(
                f"stream: request {number}: client {client.name} has no slice {index}; it has 0 to "
                f"{len(parts) - 1}"
            )
    chosen = range(len(parts)) if asked.slices is None else asked.slices
    return [record.id for index in chosen for record in parts[index]]
