"""The Flower engine: what single clients send is refused by name, and the round goes on."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from flower_world import Nodes, Spoil, each_tensor, each_update
from tiny_world import GROUPS, Quiet, World, made, trained

from fedsgt.build.train import train
from fedsgt.engine.flower.messages import TrainingAnswer, TrainingOrder
from fedsgt.errors import InputError
from fedsgt.files.tensors import Tensors
from fedsgt.planning.planner import score_plan
from fedsgt.planning.stream import Stream
from fedsgt.proof.verify import verify


def test_a_forecast_counts_what_is_carried(images: World, tmp_path: Path) -> None:
    """`fedsgt plan`: what each round starts from and sends up, and frozen modules once each."""
    access = Nodes()
    folder = train(images.config(), tmp_path / "run", Quiet(), access=access)
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


# Answers that a client may send, and the reaction to each.

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
    "too few": (each_update(lambda update: replace(update, records=1)), "it says 1 record"),
    "no number": (each_update(lambda update: replace(update, records=True)), "cannot be read"),
    "nothing": (lambda order, answer: TrainingAnswer(), "there is no update in its answer"),
    "lacks": (lambda order, answer: TrainingAnswer(lacks=tuple(order.modules)), "there is no update"),
}


@pytest.mark.parametrize("kind", SPOILT)
def test_what_cannot_be_used_is_refused_by_name_and_the_round_goes_on(
    images: World, tmp_path: Path, kind: str
) -> None:
    spoil, reason = SPOILT[kind]
    display = Quiet()
    config = images.config("grouping.groups=2", "plan.budget=1")
    folder = train(config, tmp_path / "run", display, access=Nodes(spoil=spoil))
    assert display.troubles
    for client, what in display.troubles:
        assert client == "c1"
        assert re.search(
            r"update refused \(module [0-9a-f]{12}, round 1\): .*" + re.escape(reason), what
        ) or (kind == "lacks" and "it lacks a module" in what), what
    for entry in folder.description.modules:
        assert "c1" not in folder.modules.manifest(entry.key).participants[0]


def test_verification_follows_who_took_part(images: World, tmp_path: Path) -> None:
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

    config = images.config("training.rounds=2")
    folder = train(config, tmp_path / "run", Quiet(), access=Nodes(spoil=second))
    took_part = [folder.modules.manifest(entry.key).participants for entry in folder.description.modules]
    with_it = [rounds for rounds in took_part if "c1" in rounds[0]]
    assert with_it
    assert all("c1" not in rounds[1] for rounds in with_it)
    assert made(folder) != trained(tmp_path / "whole", config)
    found = verify(folder)
    assert found.passed, found.counts
    assert len(found.modules) == len(folder.description.modules)


def test_a_round_without_any_usable_update_is_an_error_that_says_why(images: World, tmp_path: Path) -> None:
    def refuse(order: TrainingOrder, answer: TrainingAnswer) -> TrainingAnswer:
        return TrainingAnswer()

    access = Nodes(spoil=refuse)
    config = images.without([row for row in images.rows if row.client != "c1"])
    run = config.config("data.clients=1", "grouping.groups=1")
    with pytest.raises(InputError, match="no update to go on with: client c1: update refused"):
        train(run, tmp_path / "run", Quiet(), access=access)
    again = train(run, tmp_path / "run", Quiet(), access=Nodes())
    assert made(again) == trained(tmp_path / "here", run)


def test_a_node_that_says_it_cannot_is_not_asked_forever(images: World, tmp_path: Path) -> None:
    def cannot(order: TrainingOrder, answer: TrainingAnswer) -> TrainingAnswer:
        return TrainingAnswer(problems={job.key: "its disk is full" for job in order.jobs})

    with pytest.raises(InputError, match="client c1: its disk is full"):
        train(images.config(), tmp_path / "run", Quiet(), access=Nodes(spoil=cannot))
    go_on = images.config("engine.absent=go-on")
    folder = train(go_on, tmp_path / "run", Quiet(), access=Nodes(spoil=cannot))
    assert verify(folder).passed
