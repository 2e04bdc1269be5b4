"""The server's average: exact up to one rounding, the same in any order, and without refused updates."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsgt.engine.rounds import OpenRound, RefusedUpdate, RunningMean, client_order
from fedsgt.engine.task import Task, Update
from fedsgt.errors import InputError
from fedsgt.files.tensors import Tensors

SHAPE = (2, 3)
finite = st.floats(-(2.0**126), 2.0**126, width=32)
parts = st.lists(
    st.tuples(st.lists(finite, min_size=6, max_size=6), st.integers(1, 10**6)), min_size=1, max_size=8
)


def average(start: Tensors, updates: Sequence[Update]) -> Tensors:
    """The mean of updates that are all there."""
    running = RunningMean(start, {update.client: update.records for update in updates})
    for update in updates:
        running.add(update)
    return running.mean()


def state(values: list[float]) -> Tensors:
    return {"w": np.array(values, np.float32).reshape(SHAPE)}


def updates_of(drawn: list[tuple[list[float], int]]) -> list[Update]:
    return [
        Update(f"client-{number}", state(values), records, loss=0.0)
        for number, (values, records) in enumerate(drawn)
    ]


@given(parts)
def test_it_is_the_weighted_mean_within_one_rounding(drawn: list[tuple[list[float], int]]) -> None:
    updates = updates_of(drawn)
    found = average(state([0] * 6), updates)["w"]
    assert found.dtype == np.float32
    total = sum(update.records for update in updates)
    for place in np.ndindex(SHAPE):
        terms = [Fraction(float(u.state["w"][place])) * u.records / total for u in updates]
        exact = sum(terms, Fraction())
        # If large terms cancel, float64 loses more of them than a unit of the small result.
        lost = sum(map(abs, terms), Fraction()) * Fraction(2) ** -52 * (len(terms) + 1)
        unit = Fraction(float(np.spacing(np.abs(np.float32(float(exact))))))
        assert abs(Fraction(float(found[place])) - exact) <= unit + lost


@given(parts, st.randoms(use_true_random=False))
def test_the_order_of_updates_leaves_no_trace(
    drawn: list[tuple[list[float], int]], shuffler: random.Random
) -> None:
    updates = updates_of(drawn)
    shuffled = list(updates)
    shuffler.shuffle(shuffled)
    start = state([0] * 6)
    assert average(start, updates)["w"].tobytes() == average(start, shuffled)["w"].tobytes()


def test_orders_that_would_round_differently_are_told_apart_by_nothing() -> None:
    """Three values whose float64 sum depends on the order: names decide it, not arrival."""
    values = [1e30, 1.0, -1e30]
    updates = [Update(f"c{n}", state([value] * 6), 1, 0.0) for n, value in enumerate(values)]
    sums = {(values[a] + values[b]) + values[c] for a, b, c in [(0, 1, 2), (0, 2, 1), (1, 2, 0)]}
    assert len(sums) > 1
    found = {
        average(state([0] * 6), [updates[n] for n in order])["w"].tobytes()
        for order in [(0, 1, 2), (0, 2, 1), (1, 2, 0), (2, 1, 0)]
    }
    assert len(found) == 1


def test_no_update_is_an_error() -> None:
    with pytest.raises(InputError, match="without any update"):
        average(state([0] * 6), [])


BAD: dict[str, tuple[dict[str, Any], int, str]] = {
    "NaN": ({"w": np.array([[1, 2, np.nan], [0, 0, 0]], np.float32)}, 1, "w holds a NaN value"),
    "Inf": ({"w": np.full(SHAPE, -np.inf, np.float32)}, 1, "w holds an infinite value"),
    "shape": ({"w": np.zeros((3, 2), np.float32)}, 1, r"w is float32 of shape \(3, 2\); .*\(2, 3\)"),
    "flat": ({"w": np.zeros(6, np.float32)}, 1, r"w is float32 of shape \(6,\)"),
    "float64": ({"w": np.zeros(SHAPE, np.float64)}, 1, "w is float64"),
    "float16": ({"w": np.zeros(SHAPE, np.float16)}, 1, "w is float16"),
    "integers": ({"w": np.zeros(SHAPE, np.int32)}, 1, "w is int32"),
    "missing": ({}, 1, "w is missing"),
    "extra": ({"w": np.zeros(SHAPE, np.float32), "x": np.zeros(1, np.float32)}, 1, "x is not asked for"),
    "NaN loss": ({"w": np.zeros(SHAPE, np.float32)}, 1, "its loss is nan"),
    "infinite loss": ({"w": np.zeros(SHAPE, np.float32)}, 1, "its loss is inf"),
    "no records": ({"w": np.zeros(SHAPE, np.float32)}, 0, "0 records"),
    "negative records": ({"w": np.zeros(SHAPE, np.float32)}, -5, "-5 records"),
}

LOSSES = {"NaN loss": float("nan"), "infinite loss": float("inf")}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("alone", [True, False])
def test_an_unusable_update_is_refused_by_client(name: str, alone: bool) -> None:
    bad, records, message = BAD[name]
    good = [] if alone else [Update("a-good-one", state([1] * 6), 5, 0.1)]
    updates = [*good, Update("the-bad-one", bad, records, LOSSES.get(name, 0.1))]
    with pytest.raises(RefusedUpdate, match=f"client the-bad-one: update refused: ({message})") as caught:
        average(state([0] * 6), updates)
    assert caught.value.client == "the-bad-one"
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", BAD)
def test_a_round_that_ends_with_one_says_the_same(name: str) -> None:
    """The server's other sums come after the check, so that they meet nothing they cannot take."""
    bad, records, message = BAD[name]
    update = Update("the-bad-one", bad, records, LOSSES.get(name, 0.1))
    opened = OpenRound(Task("k" * 64, (), {}), state([0] * 6), {"the-bad-one": 3})
    with pytest.raises(RefusedUpdate, match=message):
        opened.add(update)
    assert opened.waiting == {"the-bad-one"}


@given(parts, st.randoms(use_true_random=False))
def test_who_is_left_out_leaves_no_trace(
    drawn: list[tuple[list[float], int]], shuffler: random.Random
) -> None:
    """The mean is as if the client had never been asked; updates that come before their turn are not lost."""
    updates, start = updates_of(drawn), state([0] * 6)
    records = {update.client: update.records for update in updates} | {"away": 10**7, "late": 1}
    running = RunningMean(start, records)
    events: list[Update | str] = [*updates, "away", "late"]
    shuffler.shuffle(events)
    for event in events:
        if isinstance(event, str):
            running.leave_out(event)
        else:
            running.add(event)
    assert not running.early
    assert running.mean()["w"].tobytes() == average(start, updates)["w"].tobytes()


def test_what_comes_in_its_turn_is_not_kept() -> None:
    records = {f"c{number}": 9 - number for number in range(9)}
    running = RunningMean(state([0] * 6), records)
    for name in client_order(records):
        running.add(Update(name, state([1] * 6), records[name], 0.0))
        assert not running.early


def test_with_a_frozen_the_mean_of_products_is_the_product_of_means() -> None:
    """With `peft.freeze_a`, averaging B alone averages what B @ A adds."""
    rng = np.random.default_rng(0)
    down = rng.integers(-8, 8, (2, 5)).astype(np.float32)
    start = {"x.lora_A": down, "x.lora_B": np.zeros((4, 2), np.float32)}
    frozen, moved = [], []
    for number in range(4):
        up = rng.integers(-64, 64, (4, 2)).astype(np.float32)
        other = down + rng.integers(-2, 3, down.shape).astype(np.float32)
        frozen.append(Update(f"c{number}", {"x.lora_A": down, "x.lora_B": up}, 2**number, 0.0))
        moved.append(Update(f"c{number}", {"x.lora_A": other, "x.lora_B": up}, 2**number, 0.0))
    assert product_of_means(start, frozen) == pytest.approx(mean_of_products(frozen), abs=1e-5)
    assert product_of_means(start, moved) != pytest.approx(mean_of_products(moved), abs=1e-2)


def product_of_means(start: Tensors, updates: list[Update]) -> np.ndarray:
    mean = average(start, updates)
    return mean["x.lora_B"].astype(np.float64) @ mean["x.lora_A"].astype(np.float64)


def mean_of_products(updates: list[Update]) -> np.ndarray:
    total = sum(update.records for update in updates)
    products = [
        (u.state["x.lora_B"].astype(np.float64) @ u.state["x.lora_A"].astype(np.float64)) * u.records
        for u in updates
    ]
    return np.asarray(np.sum(products, axis=0) / total)
