"""One record on its way from a source to a batch: its id, its content, its label and its owner."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import TypeAlias

from fedsgt.errors import InputError
from fedsgt.files.encoding import frames

# One entry for each input column: the bytes of an image file, or a text.
Content: TypeAlias = tuple[bytes | str, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """One example to train on or to predict.

    Every station passes the same object on, so that contents are neither copied nor looked up by id. Nothing
    of a record is printed: not even its id may reach a log by accident.
    """

    id: str = field(repr=False)
    content: Content = field(repr=False)
    label: int | None = field(default=None, repr=False)
    owner: str | None = field(default=None, repr=False)
    """Name of the client that the record belongs to, if the source names one."""
    # Filled in by `digest`. It is a field because a class with slots has no room for `cached_property`.
    _digest: bytes | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id:
            raise InputError(f"record id {self.id!r} is not allowed; an id is a non-empty text")
        if not isinstance(self.content, tuple) or not self.content or not all(map(_is_input, self.content)):
            # The content itself stays out of the message.
            raise InputError(
                f"record {self.id!r}: its content is not allowed; it is a tuple with a text or the bytes of "
                "an image for each input column"
            )
        if self.label is not None and not isinstance(self.label, int):
            raise InputError(
                f"record {self.id!r}: label {self.label!r} is not allowed; it is an integer or None"
            )

    @property
    def digest(self) -> bytes:
        """SHA-256 of the content, computed when it is first asked for."""
        if self._digest is None:
            # Two threads may both compute it; they write the same bytes.
            object.__setattr__(self, "_digest", content_digest(*self.content))
        assert self._digest is not None
        return self._digest


def content_digest(*parts: bytes | str | int) -> bytes:
    """Return the SHA-256 of the parts in order; other kinds or another split of the same bytes differ."""
    return hashlib.sha256(frames("fedsgt.content.1", *parts)).digest()


def labels_of(records: Iterable[Record]) -> list[int]:
    """Return the records' labels; raise `InputError` if a record has none."""
    labels = []
    for record in records:
        if record.label is None:
            raise InputError(f"record {record.id!r} has no label; a label is needed here")
        labels.append(record.label)
    return labels


def sorted_records(records: Iterable[Record]) -> list[Record]:
    """Return the records in canonical order, by id; raise `InputError` if two have the same id."""
    ordered = sorted(records, key=attrgetter("id"))
    for before, after in pairwise(ordered):
        if before.id == after.id:
            raise InputError(f"record id {after.id!r} is there twice; allowed: each id once per client")
    return ordered


def _is_input(part: object) -> bool:
    return isinstance(part, bytes | str)
