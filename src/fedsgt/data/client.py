"""Clients: those whose records are on this machine, and those that keep theirs on machines of their own."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

from fedsgt.data.fingerprints import check_salt, derive_salt, record_hash, slice_fingerprint
from fedsgt.data.records import Record, sorted_records
from fedsgt.data.slices import Slice, check_slicing, cut, slice_of
from fedsgt.errors import InputError
from fedsgt.words import counted


class AnyClient(Protocol):
    """A client of either kind, as far as grouping, planning and module keys need to know it."""

    @property
    def name(self) -> str: ...

    @property
    def node(self) -> str | None:
        """Public key of a client on a machine of its own; None for a client whose records are here."""

    def fingerprints(self) -> Sequence[str]:
        """Return the fingerprint of each slice."""

    def slice_sizes(self) -> Sequence[int]:
        """Return the number of records in each slice."""


@dataclass(frozen=True)
class RemoteClient:
    """A client whose records are on its own machine: what it registered with the server."""

    name: str
    slice_fingerprints: tuple[str, ...]
    """Fingerprints of its slices."""
    sizes: tuple[int, ...]
    """Number of records in each slice."""
    node: str
    """Public key that signs for it."""
    backbone: str
    """Hash of the client's backbone, which must be the server's."""
    profile: Mapping[str, str]
    """Execution profile of its machine; with another one than the server's, bytes could not be reproduced."""

    def fingerprints(self) -> tuple[str, ...]:
        """Return the fingerprint of each slice."""
        return self.slice_fingerprints

    def slice_sizes(self) -> tuple[int, ...]:
        """Return the number of records in each slice."""
        return self.sizes


@dataclass(frozen=True)
class Client:
    """A client whose records are here. Each may have its own number of slices and its own slicing seed."""

    name: str
    # Records and salt stay out of the printed form: neither may leave the client, not even in a log.
    records: tuple[Record, ...] = field(repr=False)
    slices: int
    slicing_seed: int | str
    salt: bytes = field(repr=False)

    @classmethod
    def simulated(cls, name: str, records: Iterable[Record], slices: int, seed: int) -> "Client":
        """Return a client of a run on one machine; its slicing and its salt follow from seed and name."""
        return cls(name, tuple(records), slices, f"{seed}/{name}", derive_salt(seed, name))

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or not self.name.isprintable():
            raise InputError(f"client name {self.name!r} is not allowed; it is a non-empty printable text")
        check_slicing(self.slicing_seed, self.slices)
        check_salt(self.salt)
        # Canonical order, so that clients with the same records are equal however those came in.
        object.__setattr__(self, "records", tuple(sorted_records(self.records)))

    @property
    def node(self) -> None:
        """None: the records are here, and no key signs for the client from elsewhere."""
        return None

    def cut(self) -> tuple[tuple[Record, ...], ...]:
        """Return the records of each slice (definition 1); a hash of the id decides, so some may be empty."""
        return self._cut

    def fingerprints(self) -> tuple[str, ...]:
        """Return the fingerprint of each slice: all that the server gets to know of the data."""
        return self._fingerprints

    def training_slices(self) -> tuple[Slice, ...]:
        """Return each slice with its fingerprint and its records, as a worker trains on it."""
        return tuple(map(Slice, self._fingerprints, self._cut))

    def slice_sizes(self) -> tuple[int, ...]:
        """Return the number of records in each slice."""
        return tuple(map(len, self._cut))

    def without(self, ids: Iterable[str]) -> "Client":
        """Return this client after a deletion of those ids; all other records stay in their slices."""
        gone = self._known(ids)
        return replace(self, records=tuple(record for record in self.records if record.id not in gone))

    def retained(self, slices: Collection[int], hashes: Collection[str]) -> "Client":
        """Return this client without those slices and without the records that have those salted hashes."""
        gone = {record.id for index in slices for record in self._cut[index]}
        if hashes:  # an HMAC for every record takes long, and most deletions name slices
            gone |= {record.id for record in self.records if self.hash_of(record.id) in hashes}
        return self.without(gone)

    def hash_of(self, record_id: str) -> str:
        """Return the salted hash under which others know a deleted record of this client."""
        return record_hash(self.salt, self.name, record_id)

    def slice_of(self, record_id: str) -> int:
        """Return the slice of a record of this id, whether the client has such a record or not."""
        return slice_of(record_id, self.slicing_seed, self.slices)

    def slices_of(self, ids: Iterable[str]) -> dict[int, list[str]]:
        """Return the slices that records of these ids belong to, each with its ids; both in order."""
        found: dict[int, list[str]] = {}
        for record_id in sorted(ids):
            found.setdefault(self.slice_of(record_id), []).append(record_id)
        return dict(sorted(found.items()))

    def locate(self, ids: Iterable[str]) -> dict[int, list[str]]:
        """Return the slices that a deletion of those ids hits, each with its ids; both in order."""
        return self.slices_of(self._known(ids))

    def _known(self, ids: Iterable[str]) -> set[str]:
        """Return the ids as a set; raise `InputError` before any change if no record has one of them."""
        # A text is iterable too: its characters would pass for ids.
        if isinstance(ids, str):
            raise InputError(
                f"client {self.name}: record ids are given as one text {ids!r}; allowed: a list of ids"
            )
        wanted = set(ids)
        unknown = sorted(wanted - self._ids, key=str)
        if unknown:
            raise InputError(
                f"client {self.name}: no record has the id {unknown[0]!r} ({len(unknown)} unknown of "
                f"{len(wanted)}); allowed: ids of this client's {counted(len(self.records), 'record')}"
            )
        return wanted

    # The client is immutable, so all of the following is computed at most once.

    @cached_property
    def _ids(self) -> frozenset[str]:
        return frozenset(record.id for record in self.records)

    @cached_property
    def _cut(self) -> tuple[tuple[Record, ...], ...]:
        return tuple(map(tuple, cut(self.records, self.slicing_seed, self.slices)))

    # Cached apart from the cut, because fingerprints hash every content and a deletion needs the cut alone.
    @cached_property
    def _fingerprints(self) -> tuple[str, ...]:
        return tuple(
            slice_fingerprint(self.salt, self.name, index, part) for index, part in enumerate(self._cut)
        )
