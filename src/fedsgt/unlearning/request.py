"""Deletion requests: the records, slices or clients that they name, and their places in the run.

The ledger gets slice numbers, salted hashes and counts, never the id of a record.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Literal

from fedsgt.data import Client, client_hash, derive_salt, record_hash
from fedsgt.data.dataset import is_kept_for_test
from fedsgt.errors import InputError
from fedsgt.files.encoding import frames
from fedsgt.ledger.kinds import Kind
from fedsgt.ledger.ledger import Entry
from fedsgt.runs.description import Description
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.migration import is_as_described
from fedsgt.runs.records_left import records_left
from fedsgt.runs.register import Registers
from fedsgt.runs.state import DeletedData, Live
from fedsgt.unlearning.erase import SourceReader
from fedsgt.words import counted

# Between a client's name and the number of its enrolment: client-3~2 is client-3 after it rejoined.
AGAIN = "~"
Scope = Literal["records", "slice", "client"]


class AlreadyDeleted(InputError):
    """Error for data that an earlier request has deleted: its deletion is in force, and this adds nothing."""


@dataclass(frozen=True)
class Deletion:
    """A wish to delete some records or some slices of one client, or all of it if neither is named."""

    client: str
    # Not printed, so that no log shows an id.
    records: tuple[str, ...] | None = field(default=None, repr=False)
    slices: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.records is not None and self.slices is not None:
            raise InputError(f"client {self.client}: give records or slices, not both; make two requests")
        if self.records == () or self.slices == ():
            raise InputError(f"client {self.client}: nothing is named to delete; name at least one")


@dataclass(frozen=True)
class DeletionPart:
    """The part of a request that concerns one enrolment of a client, as the ledger has it."""

    number: int
    """Number of the client in the run's description."""
    client: str
    """Salted hash of the client's name."""
    scope: Scope
    slices: tuple[int, ...]
    """Indices of the slices that lose records."""
    counts: tuple[int, ...]
    """Number of records that each of these slices loses."""
    records: tuple[str, ...]
    """Salted hashes of the ids, if single records were named."""

    @property
    def count(self) -> int:
        """Number of records that go."""
        return sum(self.counts)

    def to_json(self) -> dict[str, Any]:
        """Return the part as it stands in the ledger."""
        values = {
            name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()
        }
        return values | {"count": self.count}


def content_hash(folder: RunFolder, deletions: Sequence[Deletion]) -> str:
    """Return a salted hash of the request, which tells whether one with the same key is the same."""
    description = folder.live().description
    told = []
    for deletion in deletions:
        numbers = enrolments(description, deletion.client, has_simulated_clients(folder))
        name = description.clients[numbers[0]].name
        salt = derive_salt(folder.config.data.seed, name)
        records = sorted(record_hash(salt, name, record) for record in deletion.records or ())
        told.append([client_hash(salt, name), sorted(deletion.slices or ()), records])
    return hashlib.sha256(frames("fedsgt.request.1", json.dumps(told))).hexdigest()


def locate(
    folder: RunFolder, live: Live, deletions: Sequence[Deletion], reader: SourceReader
) -> list[DeletionPart]:
    """Find the slices and counts of each deletion; raise for the first that names unknown data."""
    if not deletions:
        raise InputError("the request is empty; name at least one client")
    parts: list[DeletionPart] = []
    simulated = has_simulated_clients(folder)
    enrolled = [enrolments(live.description, deletion.client, simulated) for deletion in deletions]
    for deletion, numbers in zip(deletions, enrolled, strict=True):
        # Deletions are located one after another, so that a record named twice in a batch is counted once.
        so_far = live.after([_as_entry(live, parts)]) if parts else live
        if deletion.records is None:
            parts += _slices(folder, so_far, deletion, numbers)
        else:
            _check_records_are_here(live, numbers)
            parts += _records(folder, so_far, deletion, numbers, reader)
    return parts


def groups_hit(description: Description, parts: Iterable[DeletionPart]) -> list[int]:
    """Return the groups of the slices that lose a record."""
    # A slice without records was never learnt from, so that nothing dies with it.
    return sorted(
        {
            description.groups_of[part.number][index]
            for part in parts
            for index, count in zip(part.slices, part.counts, strict=True)
            if count
        }
    )


def enrolments(description: Description, client: str, simulated: bool = False) -> list[int]:
    """Return the numbers of the client of this name: several if it rejoined (definition 11).

    Where clients are simulated, a whole number N stands for the name client-N. It is never an index.
    """
    names = [entry.name for entry in description.clients]
    name = _simulated_name(names, client) if simulated and client not in names else client
    again = re.compile(re.escape(name + AGAIN) + r"\d+")
    # A client on a machine of its own is known by its key: with another key it is another client.
    keys = {entry.node for entry in description.clients if entry.name == name and entry.node is not None}
    found = [
        number
        for number, entry in enumerate(description.clients)
        if entry.name == name
        or (again.fullmatch(entry.name) and (entry.source is not None or entry.node in keys))
    ]
    if not found:
        shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        raise InputError(
            f"client {client[:100]!r} is not in this run, which has {counted(len(names), 'client')}: {shown}"
            "; a client is known by its name only; nothing was changed"
        )
    return found


def _simulated_name(names: Sequence[str], client: str) -> str:
    """Return the name of the simulated client with this number; such names are padded with zeros."""
    if not re.fullmatch(r"\d{1,9}", client):
        return client
    meant = re.compile(rf"client-0*{int(client)}")
    return next((name for name in names if meant.fullmatch(name)), client)


def has_simulated_clients(folder: RunFolder) -> bool:
    """Whether the run's clients are simulated, and called client-0 and so on."""
    return folder.config.data.partition in ("iid", "dirichlet")


def _as_entry(live: Live, parts: Sequence[DeletionPart]) -> Entry:
    body = {"parts": [part.to_json() for part in parts], "groups": groups_hit(live.description, parts)}
    return Entry(live.position + 1, Kind.REQUEST, "", body, "", "")


def _check_records_are_here(live: Live, numbers: Sequence[int]) -> None:
    enrolled = [live.description.clients[number] for number in numbers]
    if any(client.node is not None for client in enrolled):
        raise InputError(
            f"client {enrolled[0].name} holds its records itself: it deletes single ones with fedsgt "
            "withdraw; whole slices, and all that it has, can be deleted here"
        )


def _records(
    folder: RunFolder, live: Live, deletion: Deletion, numbers: Sequence[int], reader: SourceReader
) -> list[DeletionPart]:
    """Find the records in each of the client's enrolments that registered them."""
    # Without repetitions and in the given order, so that the error names the first unknown id.
    wanted = list(dict.fromkeys(deletion.records or ()))
    parts, found = [], set[str]()
    for number in numbers:
        here = [name for name in wanted if holds(folder, live, number, name, reader)]
        found.update(here)
        if here:
            parts.append(_part_of_records(number, _empty_client(folder, live, number), here))
    missing = next((name for name in wanted if name not in found), None)
    if missing is not None:
        name = live.description.clients[numbers[0]].name
        before = deleted_by(folder, live, numbers, missing)
        if before:
            raise AlreadyDeleted(f"client {name}: {missing!r} {before}; nothing was changed")
        blanks = "; blanks around an id are part of it" if missing != missing.strip() else ""
        why = f"{blanks}{_if_for_test(folder, missing)}"
        raise InputError(f"client {name}: it never registered a record {missing!r}{why}; nothing was changed")
    return parts


def _if_for_test(folder: RunFolder, record: str) -> str:
    """Return in words that a record of this id is kept for testing; nothing if it is not."""
    share = folder.config.data.test_share
    if not share or not is_kept_for_test(record, share):
        return ""
    return ", since a record of this id is kept for testing (data.test_share) and no module learns from it"


def holds(folder: RunFolder, live: Live, number: int, record: str, reader: SourceReader) -> bool:
    """Whether the client of this number registered the record, and it is not deleted yet."""
    register = reader.registers(live.description).of(number)
    client, gone = _empty_client(folder, live, number), live.deleted.get(number, DeletedData())
    if client.hash_of(record) in gone.records or client.slice_of(record) in gone.slices:
        return False
    if register is not None:
        return record in register
    # An older run that could not be given registers: only the source knows, as long as it did not change.
    reader.read(live, also={number})
    known = reader.client(number)
    if not is_as_described(live, number, known):
        raise InputError(
            f"client {known.name}: its records changed since this run was made, and the run has no register; "
            "delete whole slices, or all that it has; nothing was changed"
        )
    return any(one.id == record for one in known.records)


def deleted_by(folder: RunFolder, live: Live, numbers: Sequence[int], record: str) -> str | None:
    """Return in words which request deleted this record of the client; None if none did."""
    registers = Registers(folder.path, live.description)
    for number in numbers:
        client, register = _empty_client(folder, live, number), registers.of(number)
        # A slice that was deleted whole held the record only if the client registered it.
        index = client.slice_of(record) if register is not None and record in register else None
        before = _request_with(live, partial(_deletes, number, client.hash_of(record), index))
        if before is not None:
            return before
    return None


def _deletes(number: int, code: str, index: int | None, part: dict[str, Any]) -> bool:
    if part["number"] != number:
        return False
    return code in part["records"] or (part["scope"] != "records" and index in part["slices"])


def _empty_client(folder: RunFolder, live: Live, number: int) -> Client:
    """Return the client without its records: enough to tell an id's slice and its salted hash."""
    entry = live.description.clients[number]
    return Client.simulated(entry.name, (), len(entry.slices), folder.config.data.seed)


def _request_with(live: Live, wanted: Callable[[dict[str, Any]], bool]) -> str | None:
    """Return in words which request has such a part; None if none has."""
    for request in live.requests:
        if any(wanted(part) for part in request.body["parts"]):
            return f"was deleted before, by request no. {request.position}"
    return None


def _part_of_records(number: int, client: Client, ids: Sequence[str]) -> DeletionPart:
    hashes = tuple(sorted(client.hash_of(name) for name in ids))
    located = client.slices_of(ids)
    counts = tuple(len(there) for there in located.values())
    return DeletionPart(
        number, client_hash(client.salt, client.name), "records", tuple(located), counts, hashes
    )


def _slices(folder: RunFolder, live: Live, deletion: Deletion, numbers: Sequence[int]) -> list[DeletionPart]:
    """Find the named slices, or all; slices that were deleted before count no records."""
    described = live.description.clients
    if deletion.slices is not None and len(numbers) > 1:
        names = ", ".join(described[number].name for number in numbers)
        raise InputError(f"client {deletion.client} is here more than once; say which: {names}")
    parts = []
    for number in numbers:
        name, left = described[number].name, records_left(live, number)
        for index in deletion.slices or ():
            if not 0 <= index < len(left):
                raise InputError(f"client {name} has no slice {index}; it has 0 to {len(left) - 1}")
            if index in live.deleted.get(number, DeletedData()).slices:
                before = _request_with(live, partial(_whole_slice, number, index))
                raise AlreadyDeleted(f"slice {index} of client {name} {before}; nothing was changed")
        chosen = tuple(sorted(set(deletion.slices or range(len(left)))))
        counts = tuple(left[index] for index in chosen)
        gone = live.deleted.get(number, DeletedData()).slices
        # Counts may be too low, as after records left the source: a slice that was not deleted whole is noted
        # in any case, so that no later training finds a record of it.
        if any(counts) or any(described[number].records[index] for index in chosen if index not in gone):
            salt = derive_salt(folder.config.data.seed, name)
            scope: Scope = "client" if deletion.slices is None else "slice"
            parts.append(DeletionPart(number, client_hash(salt, name), scope, chosen, counts, ()))
    if not parts:
        name = described[numbers[0]].name
        raise AlreadyDeleted(f"client {name}: there is no record left to delete; nothing was changed")
    return parts


def _whole_slice(number: int, index: int, part: dict[str, Any]) -> bool:
    return part["number"] == number and part["scope"] != "records" and index in part["slices"]
