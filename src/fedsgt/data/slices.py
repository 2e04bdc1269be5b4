"""Stable slicing (definition 1): a keyed hash of a record's id decides its slice; deletions move no other."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from fedsgt.data.records import Record, sorted_records
from fedsgt.errors import InputError
from fedsgt.files.encoding import frame, frames

_PURPOSE = b"fedsgt.slice.1"
# 128 bits: the remainder by S favours no slice by more than S / 2**128.
_HASH_BYTES = 16


@dataclass(frozen=True)
class Slice:
    """Records that a worker trains on or predicts together, in canonical order."""

    fingerprint: str
    """Name under which prepared records are kept; empty for records that are not kept."""
    records: tuple[Record, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.records)

    def parts(self, size: int) -> Iterator["Slice"]:
        """Yield at most `size` records at a time, in order; the parts of a named slice have names too."""
        for start in range(0, len(self.records), size):
            # The name has both ends, since parts of another size are other parts.
            name = self.fingerprint and f"{self.fingerprint}-{start}-{start + size}"
            yield Slice(name, self.records[start : start + size])


def slice_of(record_id: str, seed: int | str, slices: int) -> int:
    """Return the slice of this id, 0..slices-1; it depends on the id, the slicing seed and S alone."""
    check_slicing(seed, slices)
    if not isinstance(record_id, str) or not record_id:
        raise InputError(f"record id is {record_id!r}; allowed: a text that is not empty")
    return _slice(record_id, _seed_key(seed), slices)


def cut(records: Iterable[Record], seed: int | str, slices: int) -> list[list[Record]]:
    """Return a client's records by slice, each slice sorted by id; small clients may have empty slices."""
    check_slicing(seed, slices)
    key = _seed_key(seed)
    parts: list[list[Record]] = [[] for _ in range(slices)]
    # Sorted before the cut, so that every slice is in canonical order too.
    for record in sorted_records(records):
        parts[_slice(record.id, key, slices)].append(record)
    return parts


def are_slices(indices: Sequence[object], slices: int) -> bool:
    """Whether these are indices of slices 0..slices-1, each at most once."""
    # -1 would name the last slice once more, and True slice 1.
    if not all(type(index) is int and 0 <= index < slices for index in indices):
        return False
    return len(set(indices)) == len(indices)


def check_slicing(seed: int | str, slices: int) -> None:
    """Check that the seed is a number or a text, and S a whole number of at least 1."""
    if not isinstance(seed, int | str):
        raise InputError(f"slicing seed is {seed!r}; allowed: a whole number or a text")
    if not isinstance(slices, int) or isinstance(slices, bool) or slices < 1:
        raise InputError(f"slices is {slices!r}; allowed: a whole number of at least 1")


def _slice(record_id: str, key: bytes, slices: int) -> int:
    digest = hashlib.blake2b(frame(record_id), key=key, person=_PURPOSE, digest_size=_HASH_BYTES).digest()
    return int.from_bytes(digest, "big") % slices


@lru_cache(maxsize=1024, typed=True)
def _seed_key(seed: int | str) -> bytes:
    """Hash a seed of any length to a key; 1 and "1" are different seeds."""
    return hashlib.blake2b(frames("slicing seed", seed), person=_PURPOSE, digest_size=32).digest()
