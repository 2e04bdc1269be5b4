"""What a deletion asks for, and the client's part of it: from record ids to slices.

The server gets to see slice numbers, salted hashes and a count, never an id.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from fedsgt.build.description import Description
from fedsgt.build.holders import load_holdings
from fedsgt.build.liveness import Erased, Live
from fedsgt.build.run import RunFolder
from fedsgt.data import Client, client_hash, derive_salt, record_hash
from fedsgt.data.encoding import frames
from fedsgt.errors import InputError

AGAIN = "~"  # client-3~2 is client-3 the second time


@dataclass(frozen=True)
class Deletion:
    """What is to go of one client: some records, some slices, or all of it when neither is named."""

    client: str
    records: tuple[str, ...] = ()
    slices: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.records and self.slices:
            raise InputError(f"client {self.client}: give records or slices, not both; make two requests")


@dataclass(frozen=True)
class Part:
    """A deletion as the ledger knows it."""

    number: int
    """Of the client, in the run's description."""
    client: str
    """Salted hash of its name."""
    scope: Literal["records", "slice", "client"]
    slices: tuple[int, ...]
    records: tuple[str, ...]
    """Salted hashes of the ids, if single records were asked for."""
    count: int
    """How many records go."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"slices": list(self.slices), "records": list(self.records)}


def content_hash(folder: RunFolder, deletions: Sequence[Deletion]) -> str:
    """Tells whether a request that comes with the same key is the same request; salted, as ids are."""
    description = folder.live().description
    told = []
    for deletion in deletions:
        name = description.clients[enrolments(description, deletion.client)[0]].name
        salt = derive_salt(folder.config.data.seed, name)
        records = sorted(record_hash(salt, name, record) for record in deletion.records)
        told.append([client_hash(salt, name), sorted(deletion.slices), records])
    return hashlib.sha256(frames("fedsgt.request.1", json.dumps(told))).hexdigest()


def locate(folder: RunFolder, live: Live, deletions: Sequence[Deletion]) -> list[Part]:
    """Each deletion's slices and count; an error for the first that names what is not there."""
    if not deletions:
        raise InputError("the request is empty; name at least one client")
    erased = live.erased()
    held: tuple[Client, ...] = ()
    if any(deletion.records for deletion in deletions):
        held = load_holdings(folder.config, live.description).clients
    parts: list[Part] = []
    for deletion in deletions:
        numbers = enrolments(live.description, deletion.client)
        if deletion.records:
            parts += _records(deletion, numbers, held, erased)
        else:
            parts += _slices(folder, live.description, deletion, numbers, erased)
    return parts


def groups_hit(description: Description, parts: Iterable[Part]) -> list[int]:
    """Groups that hold a record which goes; a slice that never had one was never learnt from."""
    return sorted(
        {
            description.groups_of[part.number][index]
            for part in parts
            for index in part.slices
            if description.clients[part.number].records[index]
        }
    )


def enrolments(description: Description, client: str) -> list[int]:
    """Numbers of the client that is called so, or has this number; all its times if it came back."""
    names = [entry.name for entry in description.clients]
    found = [number for number, name in enumerate(names) if name == client or name.startswith(client + AGAIN)]
    if not found and client.isdecimal() and int(client) < len(names):
        return enrolments(description, names[int(client)])
    if not found:
        shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        raise InputError(
            f"client {client!r} is not in this run; its {len(names)} clients are {shown}, or 0 to "
            f"{len(names) - 1} by number"
        )
    return found


def _records(
    deletion: Deletion, numbers: Sequence[int], held: Sequence[Client], erased: Mapping[int, Erased]
) -> list[Part]:
    """The client finds its records, in whichever of its enrolments they are."""
    wanted = dict.fromkeys(deletion.records)
    parts = []
    for number in numbers:
        gone = erased.get(number, Erased())
        client = held[number].retained(gone.slices, gone.records)
        known = {record.id for record in client.records}
        here = [name for name in wanted if name in known]
        if here:
            for name in here:
                del wanted[name]
            parts.append(_part_of_records(number, client, here))
    for name in wanted:
        before = any(held[number].hash_of(name) in _all_records(erased, number) for number in numbers)
        problem = f"the record {name!r} was deleted before" if before else f"no record has the id {name!r}"
        raise InputError(f"client {deletion.client}: {problem}; nothing was changed")
    return parts


def _all_records(erased: Mapping[int, Erased], number: int) -> frozenset[str]:
    return erased.get(number, Erased()).records


def _part_of_records(number: int, client: Client, ids: Sequence[str]) -> Part:
    hashes = tuple(sorted(client.hash_of(name) for name in ids))
    slices = tuple(client.locate(ids))
    return Part(number, client_hash(client.salt, client.name), "records", slices, hashes, len(ids))


def _slices(
    folder: RunFolder,
    description: Description,
    deletion: Deletion,
    numbers: Sequence[int],
    erased: Mapping[int, Erased],
) -> list[Part]:
    """Whole slices, or all of them; those that were deleted before need not go again."""
    if deletion.slices and len(numbers) > 1:
        names = ", ".join(description.clients[number].name for number in numbers)
        raise InputError(f"client {deletion.client} is here more than once; say which: {names}")
    parts = []
    for number in numbers:
        entry = description.clients[number]
        gone = erased.get(number, Erased())
        for index in deletion.slices:
            if not 0 <= index < len(entry.slices):
                raise InputError(
                    f"client {entry.name} has no slice {index}; it has 0 to {len(entry.slices) - 1}"
                )
            if index in gone.slices:
                raise InputError(
                    f"slice {index} of client {entry.name} was deleted before; nothing was changed"
                )
        left = [index for index in range(len(entry.slices)) if index not in gone.slices]
        chosen = tuple(sorted(set(deletion.slices) or left))
        count = sum(entry.records[index] for index in chosen)
        if chosen and count:
            salt = derive_salt(folder.config.data.seed, entry.name)
            scope: Literal["slice", "client"] = "slice" if deletion.slices else "client"
            parts.append(Part(number, client_hash(salt, entry.name), scope, chosen, (), count))
    if not parts:
        raise InputError(f"client {deletion.client}: there is no record left to delete; nothing was changed")
    return parts
