"""A client whose records are on its own machine: what it has told the server of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


class Holder(Protocol):
    """Any client, as far as grouping, planning and keys go."""

    @property
    def name(self) -> str: ...

    @property
    def node(self) -> str | None:
        """Public key that speaks for it, if it is on a machine of its own."""

    def fingerprints(self) -> Sequence[str]: ...

    def slice_sizes(self) -> Sequence[int]: ...


@dataclass(frozen=True)
class Registered:
    """Fingerprints and numbers of records, slice by slice, and the public key that speaks for it."""

    name: str
    marks: tuple[str, ...]
    sizes: tuple[int, ...]
    node: str
    backbone: str
    """Hash of the backbone that it has, which must be the server's."""
    profile: Mapping[str, str]
    """How it computes: alike everywhere, or nobody could compute the same again."""

    def fingerprints(self) -> tuple[str, ...]:
        return self.marks

    def slice_sizes(self) -> tuple[int, ...]:
        return self.sizes
