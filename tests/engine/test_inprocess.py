"""The in-process engine: who takes part in a round, what is told of it, and predictions in parts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny_world import World, build, started

from fedsgt.build.prepare import Prepared, prepare
from fedsgt.engine import inprocess
from fedsgt.engine.events import ClientUpdated, Event
from fedsgt.engine.inprocess import InProcess
from fedsgt.engine.task import Result, RoundFailed, StatisticTask, Task
from fedsgt.engine.worker import Setup, Worker
from fedsgt.errors import InputError
from fedsgt.files.tensors import Tensors
from fedsgt.store import Modules, open_objects


@pytest.fixture(scope="module")
def prepared(images: World) -> Prepared:
    return prepare(images.config())


@pytest.fixture
def setup(prepared: Prepared) -> Setup:
    return prepared.setup(Modules(open_objects("memory://inprocess")), None)


def finished(engine: InProcess) -> Result:
    """The next finished round."""
    while (result := engine.wait()) is None:
        pass
    return result


def test_clients_without_records_take_no_part(setup: Setup, prepared: Prepared) -> None:
    empty = replace(setup.slices["c1"][0], records=())
    changed = replace(setup, slices={**setup.slices, "c1": [empty, empty]})
    with InProcess(changed, prepared.model.stack) as engine:
        engine.submit(Task("a" * 64, (), {"c0": (0,), "c1": (0, 1)}))
        assert finished(engine).participants == {"c0": len(setup.slices["c0"][0])}
        with pytest.raises(InputError, match="module bbbbbbbbbbbb: no client has a record in its groups"):
            engine.submit(Task("b" * 64, (), {"c1": (0, 1)}))


def test_a_refused_round_says_module_round_and_client(setup: Setup, prepared: Prepared) -> None:
    """A rate at which training breaks down."""
    run = prepared.run.model_copy(
        update={"training": prepared.run.training.model_copy(update={"learning_rate": 1e30, "clip": None})}
    )
    with InProcess(replace(setup, run=run), prepared.model.stack) as engine:
        engine.submit(Task("a" * 64, (), {"c0": (0, 1)}))
        with pytest.raises(RoundFailed) as raised:
            engine.wait()
    assert re.fullmatch(
        "module aaaaaaaaaaaa, round 1, client c0: update refused: .*", str(raised.value.cause)
    )


def test_every_update_is_told(setup: Setup, prepared: Prepared) -> None:
    told: list[Event] = []
    with InProcess(setup, prepared.model.stack, told.append) as engine:
        engine.submit(Task("a" * 64, (), {"c0": (0,), "c2": (0, 1)}, groups=(2, 1)))
        result = finished(engine)
    updates = [event for event in told if isinstance(event, ClientUpdated)]
    assert len(updates) == len(told)
    assert {event.client: event.records for event in updates} == result.participants
    assert {(event.module, event.groups, event.round) for event in updates} == {("a" * 64, (2, 1), 1)}
    assert all(event.loss is not None and event.seconds > 0 for event in updates)


def test_predictions_in_parts_stand_in_order(
    images: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared, folder = started(tmp_path / "run", images.config("grouping.groups=1"))
    build(prepared, folder)
    chains = [(), folder.description.chain((0,))]
    found = []
    for part in (128, 4, 1):
        monkeypatch.setattr(inprocess, "TEST_PART", part)
        with InProcess(prepared.setup(folder.modules, folder.cache), prepared.model.stack) as engine:
            found.append(engine.predict(chains))
    assert found[0].shape == (2, 6, 3)
    assert found[0].sum(axis=-1) == pytest.approx(1, abs=1e-5)
    assert found[0][0] == pytest.approx(1 / 3), "the bare backbone knows of no label"
    for other in found[1:]:
        assert other == pytest.approx(found[0], abs=1e-5)
    assert len({tuple(row) for row in found[0][1].round(4).tolist()}) == 6


def test_the_late_answer_of_a_cancelled_round_is_no_prediction(images: World, prepared: Prepared) -> None:
    """A worker still trains for a round that was cancelled when a prediction is asked for."""
    made = prepared.setup(Modules(open_objects("memory://inprocess")), None)
    with InProcess(made, prepared.model.stack) as engine:
        expected = engine.predict([()])
    one_worker = replace(made, run=images.config("engine.workers=1"), read_module=no_module)
    with InProcess(one_worker, prepared.model.stack) as engine:
        engine.submit(Task("a" * 64, (), {"c0": (0, 1), "c1": (0, 1)}))
        engine.cancel("a" * 64)
        assert np.array_equal(engine.predict([()]), expected)


def no_module(key: str) -> Tensors:
    """Stand in for a store of worker processes, to which a store in memory cannot be sent."""
    raise KeyError(key)


def tasks_of(chains: Sequence[tuple[str, ...]]) -> list[StatisticTask]:
    """Return tasks client by client, which is not the order in which they should be done."""
    return [StatisticTask(chain, client, (0, 1)) for client in ("c0", "c1", "c2") for chain in chains]


def test_statistics_are_those_of_a_worker_and_go_chain_by_chain(images: World, tmp_path: Path) -> None:
    prepared, folder = started(tmp_path / "run", images.config("grouping.groups=1"))
    build(prepared, folder)
    chains = [folder.description.chain((0,)), ()]
    setup = prepared.setup(folder.modules, folder.cache)
    worker = Worker(setup)
    with InProcess(setup, prepared.model.stack) as engine:
        found = list(engine.statistics(tasks_of(chains)))
    assert [task.chain for task, _ in found] == [chains[0]] * 3 + [chains[1]] * 3
    assert {task for task, _ in found} == set(tasks_of(chains))
    for task, statistic in found:
        expected = worker.statistic(task.chain, task.client, task.slices)
        assert statistic.gram.tobytes() == expected.gram.tobytes()
        assert statistic.cross.tobytes() == expected.cross.tobytes()
        assert statistic.records == expected.records == sum(map(len, setup.slices[task.client]))


def test_an_error_in_one_statistic_is_raised_and_drops_the_others(setup: Setup, prepared: Prepared) -> None:
    def gone(key: str) -> Tensors:
        raise InputError("module destroyed")

    with InProcess(replace(setup, read_module=gone), prepared.model.stack) as engine:
        with pytest.raises(InputError, match="module destroyed"):
            list(engine.statistics(tasks_of([("a" * 64,), ()])))
        assert len(list(engine.statistics(tasks_of([()])))) == 3


def test_updates_that_come_among_statistics_are_not_lost(setup: Setup, prepared: Prepared) -> None:
    task = Task("a" * 64, (), {"c0": (0, 1), "c1": (0, 1)})
    with InProcess(setup, prepared.model.stack) as engine:
        engine.submit(task)
        expected = finished(engine)
    with InProcess(setup, prepared.model.stack) as engine:
        engine.submit(task)
        engine.submit(replace(task, key="b" * 64))
        engine.cancel("b" * 64)
        assert len(list(engine.statistics(tasks_of([()])))) == 3
        assert not engine.pool.queue  # type: ignore[attr-defined]
        result = finished(engine)
    assert result.state.keys() == expected.state.keys()
    assert all(np.array_equal(result.state[name], expected.state[name]) for name in expected.state)


def test_outputs_in_parts_stand_in_order(
    images: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared, folder = started(tmp_path / "run", images.config("grouping.groups=1"))
    build(prepared, folder)
    chains = [(), folder.description.chain((0,))]
    monkeypatch.setattr(inprocess, "TEST_PART", 4)
    shares: list[float] = []
    with InProcess(prepared.setup(folder.modules, folder.cache), prepared.model.stack) as engine:
        found = engine.outputs(chains, shares.append)
        predicted = engine.predict(chains)
    assert shares == [0.5, 1.0]
    assert [one.probabilities.tobytes() for one in found] == [one.tobytes() for one in predicted]
    assert [one.features.shape for one in found] == [(6, 32), (6, 16)]
