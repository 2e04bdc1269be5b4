"""Stable slicing (definition 1): a record's slice is a keyed hash of its id; deletions move nobody."""

import hashlib
from collections.abc import Iterable
from functools import lru_cache

from fedsgt.data.records import Record, sorted_records
from fedsgt.errors import InputError
from fedsgt.files.encoding import frame, frames

_PURPOSE = b"fedsgt.slice.1"
# 128 bits: the remainder by S favours no slice by more than S / 2**128.
_HASH_BYTES = 16


def slice_of(record_id: str, seed: int | str, slices: int) -> int:
    """The slice, 0..slices-1, of this id: a function of the id, the client's slicing seed and S alone."""
    check_slicing(seed, slices)
    if not isinstance(record_id, str) or not record_id:
        raise InputError(f"record id is {record_id!r}; allowed: a text that is not empty")
    return _slice(record_id, _seed_key(seed), slices)


def cut(records: Iterable[Record], seed: int | str, slices: int) -> list[list[Record]]:
    """A client's records by slice, each slice sorted by id. Small clients may get empty slices."""
    check_slicing(seed, slices)
    key = _seed_key(seed)
    parts: list[list[Record]] = [[] for _ in range(slices)]
    for record in sorted_records(records):
        parts[_slice(record.id, key, slices)].append(record)
    return parts


def check_slicing(seed: int | str, slices: int) -> None:
    """The seed is a number or a text, S a whole number of at least one."""
    if not isinstance(seed, int | str):
        raise InputError(f"slicing seed is {seed!r}; allowed: a whole number or a text")
    if not isinstance(slices, int) or isinstance(slices, bool) or slices < 1:
        raise InputError(f"slices is {slices!r}; allowed: a whole number of at least 1")


def _slice(record_id: str, key: bytes, slices: int) -> int:
    digest = hashlib.blake2b(frame(record_id), key=key, person=_PURPOSE, digest_size=_HASH_BYTES).digest()
    return int.from_bytes(digest, "big") % slices


@lru_cache(maxsize=1024, typed=True)
def _seed_key(seed: int | str) -> bytes:
    """Seeds of any length as a key; 1 and "1" are different seeds."""
    return hashlib.blake2b(frames("slicing seed", seed), person=_PURPOSE, digest_size=32).digest()
