"""Orders: all rounds of a client travel together, and each frozen module goes to it once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import pytest
from flower_world import Nodes
from tiny_world import GROUPS, Quiet, World, made, trained

from fedsgt.build.train import train
from fedsgt.engine.flower.orders import FlowerRound, OrderPacker, RunInfo
from fedsgt.engine.task import Task
from fedsgt.files.tensors import Tensors
from fedsgt.runs.traffic import read_traffic


def test_all_that_can_be_trained_travels_together_and_frozen_modules_once(
    images: World, tmp_path: Path
) -> None:
    """L rounds instead of B L, and no module goes to a client twice."""
    access = Nodes()
    folder = train(images.config("training.rounds=2"), tmp_path / "run", Quiet(), access=access)
    traffic = read_traffic(folder)
    assert traffic is not None
    assert traffic.rounds == GROUPS * 2
    for name, line in traffic.clients.items():
        orders = [order for order in access.orders if order.client == name]
        assert line.messages == len(orders) <= GROUPS * 2
        assert line.modules == sum(len(order.jobs) for order in orders) > line.messages
        sent = [key for order in orders for key in order.modules]
        assert len(sent) == len(set(sent))
        assert set(sent) == {key for order in orders for job in order.jobs for key in job.parents}
        assert line.down > line.up > 0


class Forgetful:
    """Loses every second module that it is given, until it is sent again."""

    def __init__(self) -> None:
        self.held: dict[str, Tensors] = {}
        self.lost: set[str] = set()
        self.kept: list[set[str]] = []

    def get(self, key: str) -> Tensors:
        return self.held[key]

    def lacks(self, hashes: Mapping[str, str]) -> list[str]:
        return [key for key in hashes if key not in self.held]

    def put(self, modules: Mapping[str, Tensors], hashes: Mapping[str, str]) -> None:
        self.held.update(modules)

    def keep(self, keys: Collection[str]) -> None:
        self.kept.append(set(keys))
        self.held = {key: held for key, held in self.held.items() if key in keys}
        for key in sorted(self.held.keys() - self.lost)[::2]:
            self.lost.add(key)
            del self.held[key]


def test_a_node_that_lost_modules_is_sent_them_again(images: World, tmp_path: Path) -> None:
    module_cache = Forgetful()
    access = Nodes(module_cache=lambda prepared: module_cache)
    folder = train(images.config(), tmp_path / "run", Quiet(), access=access)
    assert module_cache.lost
    assert made(folder) == trained(tmp_path / "here", images.config())
    assert module_cache.kept[-1] == set()
    assert not module_cache.held, "nothing of others stays on a node"


class Modules:
    """Finished modules as a store has them, and how often each was read."""

    def __init__(self, *keys: str) -> None:
        self.held = {key: {"w": np.full(2, ord(key), np.float32)} for key in keys}
        self.reads: list[str] = []

    def get(self, key: str) -> Tensors:
        self.reads.append(key)
        return self.held[key]

    def packer(self) -> OrderPacker:
        info = RunInfo(
            records=lambda client, slices: len(slices),
            hash_of=lambda key: f"hash of {key}",
            present=lambda: frozenset(self.held),
            about=lambda client: {"name": client},
        )
        made = OrderPacker(self.get, info)
        made.begin_round()
        return made


def opened(key: str, *parents: str) -> FlowerRound:
    task = Task(key, parents, {"c": (0, 2), "d": (1,)}, round=2)
    return FlowerRound(task, {"w": np.zeros(2, np.float32)}, {"c": 1, "d": 1})


def test_an_order_has_the_clients_own_slices_and_seed() -> None:
    packer = Modules("p").packer()
    order = packer.order("c", [opened("k", "p"), opened("l")])
    assert [(job.key, job.parents, job.slices, job.round) for job in order.jobs] == [
        ("k", ("p",), (0, 2), 2),
        ("l", (), (0, 2), 2),
    ]
    assert (order.hashes, order.keep, order.about) == ({"p": "hash of p"}, ("p",), {"name": "c"})
    other = packer.order("d", [opened("k", "p")])
    assert other.jobs[0].slices == (1,)
    assert len({order.jobs[0].seed, order.jobs[1].seed, other.jobs[0].seed}) == 3


def test_a_frozen_module_is_read_once_a_round_and_sent_once_to_each_client() -> None:
    modules = Modules("p", "q")
    packer = modules.packer()
    assert packer.order("c", [opened("k", "p"), opened("l", "p", "q")]).modules.keys() == {"p", "q"}
    assert packer.order("c", [opened("m", "p")]).modules == {}
    assert packer.order("d", [opened("m", "p")]).modules.keys() == {"p"}
    assert sorted(modules.reads) == ["p", "q"]
    packer.lost("c", ["p"])
    again = packer.order("c", [opened("m", "p")])
    assert (set(again.modules), again.keep) == ({"p"}, ("p", "q"))
    packer.lost("c")
    assert packer.order("c", [opened("m", "p")]).keep == ("p",)


def test_a_destroyed_module_leaves_the_nodes_and_is_not_sent_again() -> None:
    """A node destroys all modules that its order does not list."""
    modules = Modules("p", "q")
    packer = modules.packer()
    assert packer.order("c", [opened("k", "p"), opened("l", "q")]).keep == ("p", "q")
    del modules.held["q"]
    packer.begin_round()
    assert packer.order("c", [opened("k", "p")]).keep == ("p",)
    with pytest.raises(KeyError):
        packer.check_parents(opened("l", "q"))


def test_tensors_are_encoded_once_a_round() -> None:
    packer = Modules().packer()
    state = {"w": np.ones(3, np.float32)}
    first = packer.encode(state)
    assert packer.encode(state) is first
    assert packer.encode({"w": np.ones(3, np.float32)}) is not first
    packer.begin_round()
    assert packer.encode(state) is not first
