"""The Flower engine gives the bytes of the in-process one, in few rounds, whatever single clients do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from flower_world import Gone, Nodes, Spoil, each_tensor, each_update
from tiny_world import GROUPS, Quiet, World, made, make_world, trained

from fedsgt.build.train import train
from fedsgt.config import to_toml
from fedsgt.engine.flower.messages import TrainingAnswer, TrainingOrder
from fedsgt.errors import InputError
from fedsgt.files.tensors import Tensors
from fedsgt.planning.planner import score_plan
from fedsgt.planning.stream import Stream
from fedsgt.proof.verify import verify
from fedsgt.runs.folder import open_run
from fedsgt.runs.traffic import read_traffic


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"), "image")


@pytest.mark.parametrize("settings", [(), ("training.rounds=2", "peft.layers=1", "engine.workers=2")])
def test_the_modules_are_those_of_the_in_process_engine(
    image: World, tmp_path: Path, settings: tuple[str, ...]
) -> None:
    here = trained(tmp_path / "here", image.config(*settings))
    assert trained(tmp_path / "there", image.config(*settings, "engine.name=flower")) == here


def test_also_in_flowers_simulation(image: World, tmp_path: Path) -> None:
    """As a person starts it, in a process of its own."""
    (tmp_path / "run.toml").write_text(to_toml(image.config("engine.workers=2")), encoding="utf-8")
    command = (sys.executable, "-m", "fedsgt", "train", "run.toml", "--engine", "flower-sim", "-o", "there")
    home = tmp_path / "home"
    environment = {**os.environ, "HOME": str(home)}
    environment.pop("FLWR_HOME", None)
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert not (home / ".flwr").exists(), "Flower writes an id there for its reports to its makers"
    assert made(open_run(tmp_path / "there")) == trained(tmp_path / "here", image.config())


def test_all_that_can_be_trained_travels_together_and_frozen_modules_once(
    image: World, tmp_path: Path
) -> None:
    """L rounds instead of B L, and no module goes to a client twice."""
    access = Nodes()
    folder = train(image.config("training.rounds=2"), tmp_path / "run", Quiet(), access=access)
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


def test_a_forecast_counts_what_is_carried(image: World, tmp_path: Path) -> None:
    """`fedsgt plan`: what each round starts from and sends up, and frozen modules once each."""
    access = Nodes()
    folder = train(image.config(), tmp_path / "run", Quiet(), access=access)
    counts = np.zeros((len(folder.description.clients), GROUPS), dtype=np.int64)
    for client, groups in enumerate(folder.description.groups_of):
        np.add.at(counts[client], groups, 1)
    size = sum(tensor.nbytes for tensor in access.orders[0].jobs[0].state.values())
    told = score_plan(folder.description.plan_made(), counts, Stream(0), size).to_json()["per_client"]
    sent = [state for order in access.orders for state in (*order.modules.values(), *states_of(order))]
    carried = sum(tensor.nbytes for state in sent for tensor in state.values())
    assert told["download_bytes"] == pytest.approx(carried / len(counts))
    assert told["upload_bytes"] == pytest.approx(size * sum(len(o.jobs) for o in access.orders) / len(counts))


def states_of(order: TrainingOrder) -> list[Tensors]:
    return [job.state for job in order.jobs]


# What a client may send, and what becomes of it.

HUGE = 10_000_000


def first(change: Callable[[np.ndarray], np.ndarray]) -> Spoil:
    def changed(state: Tensors) -> Tensors:
        name = min(state)
        return state | {name: change(state[name].copy())}

    return each_tensor(changed)


SPOILT: dict[str, tuple[Spoil, str]] = {
    "nan": (first(lambda array: array * np.nan), "holds a NaN value"),
    "infinite": (first(lambda array: array + np.inf), "holds an infinite value"),
    "shape": (first(lambda array: array[None]), "it should be float32 of shape"),
    "type": (first(lambda array: array.astype(np.float64)), "is float64"),
    "far away": (first(lambda array: array + 1e30), "from where it began; at most 1000"),
    "name": (each_tensor(lambda state: {f"{name}x": held for name, held in state.items()}), "is missing"),
    "one more": (
        each_tensor(lambda state: state | {"more": np.zeros(1, np.float32)}),
        "more is not asked for",
    ),
    "enormous": (each_tensor(lambda state: state | {"more": np.zeros(HUGE, np.float32)}), "bytes; at most"),
    "loss": (each_update(lambda update: replace(update, loss=float("nan"))), "its loss is nan"),
    "count": (each_update(lambda update: replace(update, records=10**6)), "it says 1000000 records"),
    "too few": (each_update(lambda update: replace(update, records=1)), "it says 1 records"),
    "no number": (each_update(lambda update: replace(update, records=True)), "cannot be read"),
    "nothing": (lambda order, answer: TrainingAnswer(), "there is no update in its answer"),
    "lacks": (lambda order, answer: TrainingAnswer(lacks=tuple(order.modules)), "there is no update"),
}


@pytest.mark.parametrize("kind", SPOILT)
def test_what_cannot_be_used_is_refused_by_name_and_the_round_goes_on(
    image: World, tmp_path: Path, kind: str
) -> None:
    spoil, reason = SPOILT[kind]
    display = Quiet()
    config = image.config("grouping.groups=2", "plan.budget=1")
    folder = train(config, tmp_path / "run", display, access=Nodes(spoil=spoil))
    assert display.troubles
    for client, what in display.troubles:
        assert client == "c1"
        assert re.search(
            r"update refused \(module [0-9a-f]{12}, round 1\): .*" + re.escape(reason), what
        ) or (kind == "lacks" and "it lacks a module" in what), what
    for entry in folder.description.modules:
        assert "c1" not in folder.modules.manifest(entry.key).participants[0]


def test_verification_follows_who_took_part(image: World, tmp_path: Path) -> None:
    """In the second round of each module, one client is refused: the very same rounds give the same bytes."""
    seen: dict[str, int] = {}

    def second(order: TrainingOrder, answer: TrainingAnswer) -> TrainingAnswer:
        updates = {}
        for job in order.jobs:
            seen[job.key] = job.round
            state = {name: held * np.nan for name, held in answer.updates[job.key].state.items()}
            bad = replace(answer.updates[job.key], state=state)
            updates[job.key] = bad if job.round == 2 else answer.updates[job.key]
        return replace(answer, updates=updates)

    config = image.config("training.rounds=2")
    folder = train(config, tmp_path / "run", Quiet(), access=Nodes(spoil=second))
    took_part = [folder.modules.manifest(entry.key).participants for entry in folder.description.modules]
    with_it = [rounds for rounds in took_part if "c1" in rounds[0]]
    assert with_it
    assert all("c1" not in rounds[1] for rounds in with_it)
    assert made(folder) != trained(tmp_path / "whole", config)
    found = verify(folder)
    assert found.passed, found.counts
    assert len(found.modules) == len(folder.description.modules)


def test_a_round_without_any_usable_update_is_an_error_that_says_why(image: World, tmp_path: Path) -> None:
    def refuse(order: TrainingOrder, answer: TrainingAnswer) -> TrainingAnswer:
        return TrainingAnswer()

    access = Nodes(spoil=refuse)
    config = image.without([row for row in image.rows if row.client != "c1"])
    run = config.config("data.clients=1", "grouping.groups=1")
    with pytest.raises(InputError, match="no update to go on with: client c1: update refused"):
        train(run, tmp_path / "run", Quiet(), access=access)
    again = train(run, tmp_path / "run", Quiet(), access=Nodes())
    assert made(again) == trained(tmp_path / "here", run)


def leaves(times: int) -> Spoil:
    left = [times]

    def spoil(order: TrainingOrder, answer: TrainingAnswer) -> TrainingAnswer:
        left[0] -= 1
        if left[0] >= 0:
            raise Gone("nobody there")
        return answer

    return spoil


def test_a_client_that_is_away_is_waited_for(image: World, tmp_path: Path) -> None:
    display = Quiet()
    folder = train(image.config(), tmp_path / "run", display, access=Nodes(spoil=leaves(2)))
    assert [what for _, what in display.troubles if "waiting for it" in what]
    assert made(folder) == trained(tmp_path / "here", image.config())


def test_a_client_whose_program_fails_each_time_is_not_asked_forever(image: World, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"client c1: gave no answer .*Gone: nobody there"):
        train(image.config(), tmp_path / "run", Quiet(), access=Nodes(spoil=leaves(99)))


def test_or_the_round_goes_on_without_it(image: World, tmp_path: Path) -> None:
    config = image.config("engine.absent=go-on")
    display = Quiet()
    folder = train(config, tmp_path / "run", display, access=Nodes(spoil=leaves(1)))
    assert [what for _, what in display.troubles if "goes on without it" in what]
    first_ones = [entry for entry in folder.description.modules if len(entry.groups) == 1]
    rounds = [folder.modules.manifest(entry.key).participants[0] for entry in first_ones]
    assert all("c1" not in there for there in rounds)
    assert verify(folder).passed


def test_a_client_that_is_slow_is_left_out_after_the_timeout(image: World, tmp_path: Path) -> None:
    config = image.config("engine.absent=go-on", "engine.timeout=0.5", "grouping.groups=2", "plan.budget=1")
    display = Quiet()
    folder = train(config, tmp_path / "run", display, access=Nodes(silent=True))
    assert ("c1", "has not answered for 0.5 s; the round goes on without it") in display.troubles
    for entry in folder.description.modules:
        assert "c1" not in folder.modules.manifest(entry.key).participants[0]


def test_a_node_that_says_it_cannot_is_not_asked_forever(image: World, tmp_path: Path) -> None:
    def cannot(order: TrainingOrder, answer: TrainingAnswer) -> TrainingAnswer:
        return TrainingAnswer(problems={job.key: "its disk is full" for job in order.jobs})

    with pytest.raises(InputError, match="client c1: its disk is full"):
        train(image.config(), tmp_path / "run", Quiet(), access=Nodes(spoil=cannot))
    go_on = image.config("engine.absent=go-on")
    folder = train(go_on, tmp_path / "run", Quiet(), access=Nodes(spoil=cannot))
    assert verify(folder).passed


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


def test_a_node_that_lost_modules_is_sent_them_again(image: World, tmp_path: Path) -> None:
    module_cache = Forgetful()
    access = Nodes(module_cache=lambda prepared: module_cache)
    folder = train(image.config(), tmp_path / "run", Quiet(), access=access)
    assert module_cache.lost
    assert made(folder) == trained(tmp_path / "here", image.config())
    assert module_cache.kept[-1] == set()
    assert not module_cache.held, "nothing of others stays on a node"
