"""Pins of a client's statistics: read as they were written, and damaged ones are told."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_world import LABELS, SLICES

from fedsgt.config.sections import Heads
from fedsgt.errors import InputError
from fedsgt.federation.client.pins import PINS, Pins, keep_pins, next_pins, sampled
from fedsgt.federation.client.records import ClientRecords
from fedsgt.federation.settings import load_client

RUN = "0" * 32


@pytest.fixture
def own(machines: Path) -> ClientRecords:
    return ClientRecords(load_client(machines / "c0"))


def pins_after(own: ClientRecords, erased: list[int], heads: Heads) -> Pins:
    whole = own.client("c0", SLICES, LABELS)
    return next_pins(own, RUN, heads, whole, whole.retained(erased, ()), erased, ())


def test_the_first_statistics_decide(own: ClientRecords) -> None:
    first = pins_after(own, [], Heads(share=0.5))
    assert first == Pins(share=0.5, bits=16, erased=[])
    keep_pins(own, RUN, first)
    assert own.read(f"{PINS}/{RUN}.json", Pins) == first
    assert pins_after(own, [], Heads(share=0.5)) == first


def test_slices_are_remembered_once_and_only_those_that_exist(own: ClientRecords) -> None:
    everything = [*range(SLICES)]
    whole = own.client("c0", SLICES, LABELS)
    left = whole.retained(everything, ())
    found = next_pins(own, RUN, Heads(), whole, left, [*everything, *everything, 99], ())
    assert found.erased == everything


def test_a_sample_is_that_of_the_clients_salt(own: ClientRecords) -> None:
    client = own.client("c0", SLICES, LABELS)
    some = sampled(client, client.records, 0.5)
    assert 0 < len(some) < len(client.records)
    assert sampled(client, client.records, 0.5) == some
    assert sampled(client, client.records, 1.0) == list(client.records)


def test_damaged_pins_are_told_and_not_made_anew(own: ClientRecords) -> None:
    own.files.write(f"{PINS}/{RUN}.json", b"{}")
    with pytest.raises(InputError, match="damaged"):
        pins_after(own, [], Heads())
