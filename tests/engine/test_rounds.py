"""The server's part of a round: what it starts from, the seeds of its clients, and its result."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from tiny_world import World

from fedsgt.build.prepare import prepare
from fedsgt.config.sections import Training
from fedsgt.engine.rounds import OpenRound, RoundStarter, client_seed
from fedsgt.engine.task import Task, Update
from fedsgt.files.encoding import seed_of
from fedsgt.files.tensors import Tensors
from fedsgt.stack.stack import HEAD, Stack

TASK = Task("a" * 64, (), {"c0": (0,)})
PARENT = "f" * 64


@pytest.fixture(scope="module")
def stack(images: World) -> Stack:
    return prepare(images.config()).model.stack


@pytest.fixture(scope="module")
def parent(stack: Stack) -> Tensors:
    """A finished module with a head of its own."""
    return {name: array + 1 for name, array in stack.begin(9, stack.initial_head(9)).items()}


@pytest.fixture
def starter(stack: Stack, parent: Tensors) -> RoundStarter:
    return RoundStarter(stack, {PARENT: parent}.__getitem__, Training())


def heads(state: Tensors) -> Tensors:
    return {name: array for name, array in state.items() if name.startswith(HEAD)}


def tail(state: Tensors) -> Tensors:
    """Return all tensors but those of the head."""
    return {name: array for name, array in state.items() if not name.startswith(HEAD)}


def same(one: Tensors, other: Tensors) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def test_each_choice_has_a_seed_of_its_own() -> None:
    keys, rounds, clients = ["a" * 64, "b" * 64], [1, 2], ["c0", "c1"]
    seeds = {
        client_seed(replace(TASK, key=key, round=number), client)
        for key, number, client in product(keys, rounds, clients)
    }
    seeds |= {seed_of("module", key) for key in keys} | {seed_of("head", number) for number in rounds}
    assert len(seeds) == 12
    assert all(0 <= seed < 2**128 for seed in seeds)


def test_a_seed_is_no_other_way_of_splitting_its_parts() -> None:
    assert len({seed_of("x", "ab", "c"), seed_of("x", "a", "bc"), seed_of("x", 1), seed_of("x", "1")}) == 4


def test_seeds_never_change() -> None:
    """Every module's bytes hang on them."""
    assert seed_of("head", 0) == 248091205806484387663525802472225153123


def test_first_phases_start_from_one_head_and_modules_of_their_own(starter: RoundStarter) -> None:
    one, other = starter.start(TASK), starter.start(replace(TASK, key="b" * 64))
    assert same(heads(one), heads(other))
    assert not same(one, other)
    assert same(one, starter.start(TASK))
    assert not same(
        heads(one), heads(RoundStarter(starter.stack, starter.read_module, Training(seed=1)).start(TASK))
    )


def test_with_a_common_start_all_modules_of_one_depth_begin_alike(starter: RoundStarter) -> None:
    """The run's seed and the depth are all that it depends on."""
    common = RoundStarter(starter.stack, starter.read_module, Training(start="common"))
    one = common.start(TASK)
    assert same(one, common.start(replace(TASK, key="b" * 64, slices={"c1": (1,)})))
    assert not same(one, starter.start(TASK))
    deeper = common.start(replace(TASK, parents=(PARENT,)))
    assert not same(tail(one), tail(deeper))
    reseeded = RoundStarter(starter.stack, starter.read_module, Training(start="common", seed=1)).start(TASK)
    assert not same(tail(one), tail(reseeded))


def test_a_later_phase_starts_from_its_parents_head(starter: RoundStarter, parent: Tensors) -> None:
    started = starter.start(replace(TASK, parents=("0" * 64, PARENT)))
    assert same(heads(started), heads(parent))
    for name, array in heads(started).items():
        assert array is not parent[name]
        assert not np.shares_memory(array, parent[name])
    rest = {name: array for name, array in started.items() if not name.startswith(HEAD)}
    assert all(not array.any() for name, array in rest.items() if name.endswith("lora_B")), "a fresh module"


def test_a_later_round_goes_on_from_its_state(starter: RoundStarter, parent: Tensors) -> None:
    assert starter.start(replace(TASK, parents=(PARENT,), round=2, state=parent)) is parent


def test_the_end_says_who_took_part_and_the_mean_loss(starter: RoundStarter) -> None:
    start = {"w": np.zeros(2, np.float32)}
    updates = [
        Update("c1", {"w": np.full(2, 4, np.float32)}, 3, loss=1.0, seconds=1.0),
        Update("c0", {"w": np.full(2, 8, np.float32)}, 1, loss=5.0, seconds=2.0),
    ]
    opened = OpenRound(replace(TASK, round=2), start, {"c0": 1, "c1": 3, "c2": 7})
    opened.leave_out("c2")
    for update in updates:
        opened.add(update)
    assert not opened.waiting
    result = opened.result()
    assert (result.key, result.round) == (TASK.key, 2)
    assert list(result.participants.items()) == [("c0", 1), ("c1", 3)]
    assert (result.loss, result.seconds) == (2.0, 3.0)
    assert result.state["w"].tolist() == [5, 5]
