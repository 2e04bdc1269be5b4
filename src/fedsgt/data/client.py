"""A data holder: its records, how they are sliced, and the fingerprints it shows to the server."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from fedsgt.data.fingerprints import check_salt, record_hash, slice_fingerprint
from fedsgt.data.records import Record, sorted_records
from fedsgt.data.slices import check_slicing, cut, slice_of
from fedsgt.errors import InputError


@dataclass(frozen=True)
class Client:
    """One of the N clients. Every client may have its own number of slices and its own slicing seed."""

    name: str
    # Records and salt stay out of the printed form: neither may leave the client, not even in a log.
    records: tuple[Record, ...] = field(repr=False)
    slices: int
    slicing_seed: int | str
    salt: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or not self.name.isprintable():
            raise InputError(f"client name {self.name!r} is not allowed; it is a non-empty printable text")
        check_slicing(self.slicing_seed, self.slices)
        check_salt(self.salt)
        # Canonical order, so that clients with the same records are equal however those came in.
        object.__setattr__(self, "records", tuple(sorted_records(self.records)))

    @property
    def node(self) -> None:
        """Its records are here: nobody has to speak for it from elsewhere."""
        return None

    def cut(self) -> tuple[tuple[Record, ...], ...]:
        """The records by slice (definition 1); a hash decides, so some may be empty."""
        return self._cut

    def fingerprints(self) -> tuple[str, ...]:
        """One fingerprint per slice: all that the server gets to know of the data."""
        return self._fingerprints

    def slice_sizes(self) -> tuple[int, ...]:
        """Records per slice."""
        return tuple(map(len, self._cut))

    def without(self, ids: Iterable[str]) -> "Client":
        """This client after deleting those records; all other records stay in their slices."""
        gone = self._known(ids)
        return replace(self, records=tuple(record for record in self.records if record.id not in gone))

    def retained(self, slices: Collection[int], hashes: Collection[str]) -> "Client":
        """This client without those slices and without the records of those salted hashes."""
        gone = {record.id for index in slices for record in self._cut[index]}
        if hashes:
            gone |= {record.id for record in self.records if self.hash_of(record.id) in hashes}
        return self.without(gone)

    def hash_of(self, record_id: str) -> str:
        """What others get to know of a record of this client when it is deleted."""
        return record_hash(self.salt, self.name, record_id)

    def locate(self, ids: Iterable[str]) -> dict[int, list[str]]:
        """Which slices a deletion of those ids hits: slice number -> its ids, both in order."""
        found: dict[int, list[str]] = {}
        for record_id in sorted(self._known(ids)):
            found.setdefault(slice_of(record_id, self.slicing_seed, self.slices), []).append(record_id)
        return dict(sorted(found.items()))

    def _known(self, ids: Iterable[str]) -> set[str]:
        """The ids, once each; an id that no record has is an error before anything is done."""
        if isinstance(ids, str):
            raise InputError(
                f"client {self.name}: record ids are given as one text {ids!r}; allowed: a list of ids"
            )
        wanted = set(ids)
        unknown = sorted(wanted - self._ids, key=str)
        if unknown:
            raise InputError(
                f"client {self.name}: no record has the id {unknown[0]!r} ({len(unknown)} unknown of "
                f"{len(wanted)}); allowed: ids of this client's {len(self.records)} records"
            )
        return wanted

    @cached_property
    def _ids(self) -> frozenset[str]:
        return frozenset(record.id for record in self.records)

    @cached_property
    def _cut(self) -> tuple[tuple[Record, ...], ...]:
        return tuple(map(tuple, cut(self.records, self.slicing_seed, self.slices)))

    @cached_property
    def _fingerprints(self) -> tuple[str, ...]:
        return tuple(
            slice_fingerprint(self.salt, self.name, index, part) for index, part in enumerate(self._cut)
        )
