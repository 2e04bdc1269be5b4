"""Streams of deletion requests, the same for every system: they name clients and slices, not groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedsgt.files.encoding import seed_of


@dataclass(frozen=True)
class Request:
    """Deletion of some records of these slices of a client, or of all of them."""

    client: int
    slices: tuple[int, ...]
    whole: bool = False


Stream = list[Request]
BURST = 5


def streams(kind: str, records: Sequence[Sequence[int]], count: int, length: int, seed: int) -> list[Stream]:
    """Draw streams of requests to clients whose slices have these numbers of records."""
    rngs = [np.random.default_rng(seed_of("requests", kind, seed, number)) for number in range(count)]
    return [KINDS[kind](rng, records, length) for rng in rngs]


def hit(request: Request, groups_of: Sequence[Sequence[int]]) -> set[int]:
    """Return the groups that lose data."""
    return {groups_of[request.client][index] for index in request.slices}


def deaths(stream: Stream, groups_of: Sequence[Sequence[int]]) -> Iterator[frozenset[int]]:
    """Yield the dead groups after no request, after one, and so on."""
    dead: frozenset[int] = frozenset()
    yield dead
    for request in stream:
        dead = dead | hit(request, groups_of)
        yield dead


def _single(rng: np.random.Generator, records: Sequence[Sequence[int]], length: int) -> Stream:
    """Draw the paper's requests: each hits one slice, all slices equally likely, with repetition."""
    full = _full(records)
    return [_of_slice(*full[number]) for number in rng.integers(len(full), size=length)]


def _clients(rng: np.random.Generator, records: Sequence[Sequence[int]], length: int) -> Stream:
    """Draw requests of whole clients, one after the other; an empty slice of theirs hits no group."""
    held = [tuple(index for index, size in enumerate(sizes) if size) for sizes in records]
    return [
        Request(client, held[client], whole=True)
        for client in rng.permutation(len(records))[:length].tolist()
    ]


def _bursts(rng: np.random.Generator, records: Sequence[Sequence[int]], length: int) -> Stream:
    """Draw bursts: one client asks five times in a row, for slices of its own; then another does."""
    full, stream = _full(records), Stream()
    while len(stream) < length:
        client = full[rng.integers(len(full))][0]
        own = [slot for slot in full if slot[0] == client]
        stream += [_of_slice(*own[number]) for number in rng.integers(len(own), size=BURST)]
    return stream[:length]


def _of_slice(client: int, index: int) -> Request:
    return Request(client, (index,))


def _full(records: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Return the slices that have any record."""
    return [
        (client, index) for client, sizes in enumerate(records) for index, size in enumerate(sizes) if size
    ]


KINDS = {"slice": _single, "client": _clients, "burst": _bursts}
