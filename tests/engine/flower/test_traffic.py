"""Messages and bytes: sums client by client, means, and the form in which they are kept."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from fedsgt.engine.flower.traffic import ClientTraffic, Traffic

ONE = Traffic(3, {"a": ClientTraffic(1, 2, 30, 4), "b": ClientTraffic(5, 6, 70, 8)})
TWO = Traffic(4, {"b": ClientTraffic(10, 20, 300, 40), "c": ClientTraffic(1, 1, 1, 1)})


def test_a_sum_is_taken_field_by_field_and_client_by_client() -> None:
    both = ONE.plus(TWO)
    assert both == Traffic(
        7,
        {
            "a": ClientTraffic(1, 2, 30, 4),
            "b": ClientTraffic(15, 26, 370, 48),
            "c": ClientTraffic(1, 1, 1, 1),
        },
    )
    assert both == TWO.plus(ONE)
    assert ONE.plus(Traffic()) == ONE


def test_a_sum_is_apart_from_its_parts() -> None:
    both = ONE.plus(TWO)
    both.of_client("a").down += 1
    assert ONE.clients["a"].down == 30


def test_means_are_over_the_clients_that_were_called() -> None:
    assert [ONE.mean(what) for what in ("messages", "modules", "down", "up")] == [3, 4, 50, 6]
    assert Traffic(9).mean("down") == 0


def test_it_is_the_same_after_json() -> None:
    assert Traffic.from_json(json.loads(json.dumps(asdict(ONE)))) == ONE
    with pytest.raises(TypeError, match="sideways"):
        Traffic.from_json({"rounds": 1, "clients": {"a": {"sideways": 1}}})
