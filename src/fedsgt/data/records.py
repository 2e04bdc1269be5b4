"""A record as everything but training sees it: a stable id, a hash of its content, perhaps a label."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter

from fedsgt.errors import InputError
from fedsgt.files.encoding import frames


@dataclass(frozen=True, slots=True)
class Record:
    """One training example (docs/definitions.md). The data itself is elsewhere; `digest` stands for it."""

    id: str
    digest: bytes
    label: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id:
            raise InputError(f"record id {self.id!r} is not allowed; an id is a non-empty text")
        if not isinstance(self.digest, bytes) or not self.digest:
            raise InputError(
                f"record {self.id!r}: digest {self.digest!r} is not allowed; it is non-empty bytes"
            )
        if self.label is not None and not isinstance(self.label, int):
            raise InputError(
                f"record {self.id!r}: label {self.label!r} is not allowed; it is an integer or None"
            )


def content_digest(*parts: bytes | str | int) -> bytes:
    """SHA-256 of the parts in order; the same bytes split in another way, or of another kind, differ."""
    return hashlib.sha256(frames("fedsgt.content.1", *parts)).digest()


def sorted_records(records: Iterable[Record]) -> list[Record]:
    """The records by id, the canonical order. An id that is there twice is an error."""
    ordered = sorted(records, key=attrgetter("id"))
    for before, after in pairwise(ordered):
        if before.id == after.id:
            raise InputError(f"record id {after.id!r} is there twice; allowed: each id once per client")
    return ordered
