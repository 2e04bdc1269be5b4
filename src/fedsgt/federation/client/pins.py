"""Pins: what a client's statistics of one run must have in common, so that a server cannot take them apart.

The server chooses what it asks for and what it says was deleted. Without pins it could ask for smaller and
smaller samples, or name all slices but one, and find single records in the differences.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pydantic import Field

from fedsgt.config.sections import Heads
from fedsgt.data import Client, Record
from fedsgt.data.fingerprints import in_sample
from fedsgt.errors import ShareableError
from fedsgt.federation.client.records import ClientRecords, StateFile

PINS = "state/statistics"
LEAST_RECORDS = 10  # in a statistic, and in what the server alone takes out of the next one
FEW = f"its sample has fewer than {LEAST_RECORDS} records, of which a statistic would show too much"
NO_RUN = "it makes statistics for a run only"
UNKNOWN = "the server says that records were deleted which it has not withdrawn"
BACK = "slices are back that the server said were deleted"
SMALL = (
    f"slices were deleted that it did not withdraw, with fewer than {LEAST_RECORDS} records, "
    "which the difference from its other statistics would show"
)


class Pins(StateFile):
    """Settings of the first statistics of a run, and the slices left out of the last ones."""

    share: float = Field(gt=0, le=1)
    bits: int
    erased: list[int]


def sampled(client: Client, records: Iterable[Record], share: float) -> list[Record]:
    """Return the records that a statistic with this share is made of."""
    return [record for record in records if share == 1 or in_sample(client.salt, record.id, share)]


def next_pins(
    own: ClientRecords,
    run: str,
    heads: Heads,
    whole: Client,
    left: Client,
    erased: Collection[int],
    leaving: Collection[str],
) -> Pins:
    """Return what to keep once a statistic of the client as it is `left` is made; raise if none may be.

    `whole` is the client without what it has withdrawn itself, `leaving` has the hashes of what it has asked
    the server to delete, and `erased` the slices that the server says were deleted. An operator may delete
    slices without the client, but single records are known to their owner only.
    """
    if not run:
        raise ShareableError(NO_RUN)
    pins = _read(own, run) or Pins(share=heads.share, bits=heads.bits, erased=[])
    if (heads.share, heads.bits) != (pins.share, pins.bits):
        raise ShareableError(
            f"its first statistics of this run had heads.share = {pins.share} and heads.bits = {pins.bits}; "
            f"it makes none with {heads.share} and {heads.bits}"
        )
    if not set(pins.erased).issubset(erased):
        raise ShareableError(BACK)
    kept = {record.id for record in left.records}
    newly = []
    for index, part in enumerate(whole.cut()):
        # Nothing can be told from what the client itself is taking out.
        gone = [r for r in part if r.id not in kept and own.hash_of(r.id) not in leaving]
        if gone and index not in erased:
            raise ShareableError(UNKNOWN)
        newly += gone if index not in pins.erased else []
    if 0 < len(sampled(whole, newly, heads.share)) < LEAST_RECORDS:
        raise ShareableError(SMALL)
    return pins.model_copy(update={"erased": [index for index in range(whole.slices) if index in erased]})


def keep_pins(own: ClientRecords, run: str, pins: Pins) -> None:
    """Write the run's pins, unless they are there already."""
    if _read(own, run) != pins:
        own.files.write(f"{PINS}/{run}.json", pins.model_dump_json(indent=1).encode())


def _read(own: ClientRecords, run: str) -> Pins | None:
    try:
        return own.read(f"{PINS}/{run}.json", Pins)
    except KeyError:
        return None
