"""Which records of a long prefix an epoch uses if training has a window (definition 9)."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from fedsgt.files.encoding import frames

if TYPE_CHECKING:  # only a type: its module imports this one
    from fedsgt.engine.local_update import Example

HASH_BITS = 256


@dataclass(frozen=True)
class EpochSampler:
    """Chooses each epoch's records of one client in one round of a module whose prefix is longer.

    A record is used or not by a hash of its own id, under the client's secret salt: no other record has a say
    in it, and nobody who lacks the salt can tell which records an epoch used.
    """

    share: Fraction
    """Share of the records that an epoch uses: m/d."""
    seed: int
    """Seed of the client's local training; it stands for the module's key, the round and the client."""
    salt: bytes = field(repr=False)

    def used(self, examples: Sequence[Example], epoch: int) -> list[Example]:
        """Return the examples that this epoch uses, about that share of them, in their order."""
        return [example for example in examples if self._uses(example[0].id, epoch)]

    def _uses(self, record_id: str, epoch: int) -> bool:
        """Whether the record's hash, as a fraction of 1, is below the share; exact, in whole numbers."""
        named = frames("fedsgt.window.1", self.seed, epoch, record_id)
        drawn = int.from_bytes(hmac.digest(self.salt, named, "sha256"), "big")
        return drawn * self.share.denominator < self.share.numerator << HASH_BITS
