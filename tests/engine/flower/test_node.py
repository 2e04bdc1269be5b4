"""A node trains on the very modules that its order names, whatever it holds from before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny_world import World

from fedsgt.build.prepare import Prepared, prepare
from fedsgt.engine.flower.messages import ModuleJob, TrainingOrder
from fedsgt.engine.flower.node import PoolNode
from fedsgt.engine.flower.statistic_messages import ChainQuestion, StatisticOrder
from fedsgt.engine.pool import Inline
from fedsgt.engine.worker import Setup
from fedsgt.errors import InputError
from fedsgt.federation.client.module_cache import FolderModuleCache
from fedsgt.files.tensors import Tensors
from fedsgt.store import tensor_hash

PARENT, CHILD = "a" * 64, "b" * 64


@pytest.fixture(scope="module")
def prepared(images: World) -> Prepared:
    return prepare(images.config())


def node_in(folder: Path, prepared: Prepared) -> PoolNode:
    """Return a node that keeps modules in this folder and reads them there, as a client's does."""
    modules = FolderModuleCache(folder)
    data = prepared.data
    setup = Setup.for_clients(prepared.run, data.labels, data.local, None, modules.get, None)
    return PoolNode(Inline(setup), modules)


def state_of(prepared: Prepared, seed: int) -> Tensors:
    stack = prepared.model.stack
    return stack.begin(seed, stack.initial_head(1))


def order_for(prepared: Prepared, parent: Tensors, send: bool = True) -> TrainingOrder:
    """Return an order for one module on top of this parent, which is sent along or known already."""
    client = prepared.clients[0].name
    return TrainingOrder(
        client,
        (ModuleJob(CHILD, (PARENT,), (0,), 1, 7, state_of(prepared, 3)),),
        hashes={PARENT: tensor_hash(parent)},
        modules={PARENT: parent} if send else {},
        keep=(PARENT,),
    )


def trained(node: PoolNode, order: TrainingOrder) -> Tensors:
    answer = node.train(order)
    assert not answer.problems
    assert not answer.lacks
    return dict(answer.updates[CHILD].state)


def same(one: Tensors, other: Tensors) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def test_a_parent_of_the_same_key_with_other_bytes_replaces_the_one_in_memory(
    prepared: Prepared, tmp_path: Path
) -> None:
    """A module may be trained again with other clients: its key is the same, and its bytes are not."""
    old, new = (prepared.model.stack.finish(state_of(prepared, seed)) for seed in (1, 2))
    new = {name: array + np.float32(0.5) for name, array in new.items()}
    node = node_in(tmp_path / "node", prepared)
    before = trained(node, order_for(prepared, old))
    after = trained(node, order_for(prepared, new))
    fresh = trained(node_in(tmp_path / "fresh", prepared), order_for(prepared, new))
    assert same(after, fresh)
    assert not same(after, before), "the parent's bytes matter to its child"


def test_a_parent_that_is_there_with_other_bytes_is_asked_for(prepared: Prepared, tmp_path: Path) -> None:
    old = prepared.model.stack.finish(state_of(prepared, 1))
    new = {name: array + np.float32(0.5) for name, array in old.items()}
    node = node_in(tmp_path / "node", prepared)
    trained(node, order_for(prepared, old))
    assert node.train(order_for(prepared, new, send=False)).lacks == (PARENT,)


def test_a_module_that_does_not_have_its_hash_is_refused(prepared: Prepared, tmp_path: Path) -> None:
    parent = prepared.model.stack.finish(state_of(prepared, 1))
    order = replace(order_for(prepared, parent), hashes={PARENT: "0" * 64})
    with pytest.raises(InputError, match=f"module {PARENT[:12]} did not arrive as it was sent"):
        node_in(tmp_path / "node", prepared).train(order)


def question(prepared: Prepared, module: Tensors, send: bool = True) -> StatisticOrder:
    """Return an order for statistics under the backbone and under one module."""
    return StatisticOrder(
        prepared.clients[0].name,
        (ChainQuestion((), (0, 1)), ChainQuestion((PARENT,), (0, 1))),
        hashes={PARENT: tensor_hash(module)},
        modules={PARENT: module} if send else {},
        keep=(PARENT,),
    )


def test_a_statistic_is_of_the_very_module_that_was_sent(prepared: Prepared, tmp_path: Path) -> None:
    old = prepared.model.stack.finish(state_of(prepared, 1))
    new = {name: array + np.float32(0.5) for name, array in old.items()}
    node = node_in(tmp_path / "node", prepared)
    assert node.statistics(question(prepared, old, send=False)).lacks == (PARENT,)
    before = node.statistics(question(prepared, old)).statistics
    assert node.statistics(question(prepared, new, send=False)).lacks == (PARENT,)
    after = node.statistics(question(prepared, new)).statistics
    fresh = node_in(tmp_path / "fresh", prepared).statistics(question(prepared, new)).statistics
    for number in (0, 1):
        assert after[number].gram.tobytes() == fresh[number].gram.tobytes()
    assert before[0].gram.tobytes() == after[0].gram.tobytes(), "the backbone is the same"
    assert before[1].gram.tobytes() != after[1].gram.tobytes()


def test_one_statistic_that_fails_does_not_stop_the_others(prepared: Prepared, tmp_path: Path) -> None:
    node = node_in(tmp_path / "node", prepared)
    module = prepared.model.stack.finish(state_of(prepared, 1))
    order = question(prepared, {name: array[..., :1] for name, array in module.items()})
    answer = node.statistics(order)
    assert answer.statistics.keys() == {0}
    assert answer.problems.keys() == {1}
