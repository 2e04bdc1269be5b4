"""Statistics over Flower: the bytes of the in-process engine, and answers of clients that may be anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flower_world import Gone, Nodes, SpoilStatistics
from tiny_world import LABELS, Quiet, World, build, started

from fedsgt.build.client_access import LOCAL
from fedsgt.build.prepare import Prepared
from fedsgt.engine.events import ignore
from fedsgt.engine.flower import statistics, transport
from fedsgt.engine.flower.engine import FlowerEngine
from fedsgt.engine.flower.statistic_messages import StatisticAnswer, StatisticOrder
from fedsgt.engine.inprocess import InProcess
from fedsgt.engine.task import Engine, StatisticTask, Task
from fedsgt.errors import InputError
from fedsgt.federation.client.module_cache import FolderModuleCache
from fedsgt.runs.folder import RunFolder
from fedsgt.stack.statistics import Statistic
from fedsgt.store import tensor_hash

CLIENTS = ("c0", "c1", "c2", "c3")
Found = dict[StatisticTask, tuple[bytes, bytes, int, int]]
Opened = tuple[Prepared, RunFolder, list[StatisticTask]]


@pytest.fixture(scope="module")
def trained(images: World, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """Return a trained run, and a task for each client and chain, client by client."""
    path = tmp_path_factory.mktemp("statistics") / "run"
    prepared, folder = started(path, images.config("grouping.groups=2", "plan.budget=1"))
    build(prepared, folder)
    chains = [(), *((*target.parents, target.key) for target in prepared.targets)]
    assert len(chains) == 3
    return prepared, folder, [StatisticTask(chain, name, (0, 1)) for name in CLIENTS for chain in chains]


def bytes_of(found: Statistic) -> tuple[bytes, bytes, int, int]:
    return found.gram.tobytes(), found.cross.tobytes(), found.records, found.bits


def gathered(opened: AbstractContextManager[Engine], tasks: Sequence[StatisticTask]) -> Found:
    with opened as engine:
        return {task: bytes_of(found) for task, found in engine.statistics(tasks)}


@pytest.fixture(scope="module")
def expected(trained: Opened) -> Found:
    prepared, folder, tasks = trained
    return gathered(InProcess(prepared.setup(folder.modules, None), prepared.model.stack), tasks)


def settings(prepared: Prepared, **engine: Any) -> Prepared:
    run = prepared.run
    changed = {"engine": run.engine.model_copy(update={"name": "flower", **engine})}
    return replace(prepared, run=run.model_copy(update=changed))


def test_statistics_over_flower_are_those_of_the_in_process_engine(trained: Opened, expected: Found) -> None:
    prepared, folder, tasks = trained
    assert gathered(LOCAL.engine(folder, settings(prepared), ignore), tasks) == expected
    assert gathered(LOCAL.engine(folder, settings(prepared, workers=1), ignore), tasks[:3]) == {
        task: expected[task] for task in tasks[:3]
    }


def test_each_client_gets_one_message_chain_by_chain(trained: Opened, expected: Found) -> None:
    prepared, folder, tasks = trained
    access = Nodes()
    assert gathered(access.engine(folder, prepared, ignore), tasks[::-1]) == expected
    assert sorted(order.client for order in access.questions) == list(CLIENTS)
    for order in access.questions:
        assert len({asked.chain for asked in order.questions}) == len(order.questions) == 3
    assert access.last is not None
    sent = access.last.traffic.clients
    assert all(sent[name].down > 0 and sent[name].up > 16 * 17 // 2 * 8 for name in CLIENTS)


def test_nodes_are_sent_the_modules_that_they_lack_and_once(
    trained: Opened, expected: Found, tmp_path: Path
) -> None:
    prepared, folder, tasks = trained
    cache = FolderModuleCache(tmp_path / "modules")
    deleted = {"w": np.ones(2, np.float32)}
    cache.put({"f" * 64: deleted}, {"f" * 64: tensor_hash(deleted)})
    access = Nodes(module_cache=lambda prepared: cache)
    with access.engine(folder, prepared, ignore) as engine:
        first = {task: bytes_of(found) for task, found in engine.statistics(tasks)}
        assert cache.lacks({"f" * 64: tensor_hash(deleted)}), "a deleted module leaves the node first"
        again = {task: bytes_of(found) for task, found in engine.statistics(tasks)}
        cache.keep(())  # as if the node had been started again
        third = {task: bytes_of(found) for task, found in engine.statistics(tasks)}
    assert first == again == third == expected
    sent = [len(order.modules) for order in access.questions]
    assert sent[:8] == [2] * 4 + [0] * 4
    assert sent[8:].count(2) >= 1, "they lacked them, and were asked again"


def test_a_client_without_records_is_not_asked(trained: Opened) -> None:
    prepared, folder, tasks = trained
    access = Nodes()
    with access.engine(folder, prepared, ignore) as engine:
        info = engine.transport.info
        none = replace(info, records=lambda client, slices: 0 if client == "c1" else 12)
        engine.transport.info = none
        found = dict(engine.statistics(tasks))
    assert {order.client for order in access.questions} == {"c0", "c2", "c3"}
    stack = prepared.model.stack
    for task in tasks[3:6]:
        empty = Statistic.empty(stack.feature_width(task.chain), LABELS, 16)
        assert bytes_of(found[task]) == bytes_of(empty)


def test_a_module_that_is_gone_is_an_error_before_anybody_is_asked(trained: Opened) -> None:
    prepared, folder, _ = trained
    access = Nodes()
    with access.engine(folder, prepared, ignore) as engine, pytest.raises(InputError, match="f" * 12):
        list(engine.statistics([StatisticTask(("f" * 64,), "c0", (0, 1))]))
    assert not access.questions


def test_orders_under_way_are_not_lost(trained: Opened, expected: Found) -> None:
    """Their answers may come while statistics are waited for."""
    prepared, folder, tasks = trained
    with Nodes().engine(folder, prepared, ignore) as engine:
        engine.submit(Task("a" * 64, (), {"c0": (0, 1), "c1": (0, 1)}))
        engine.transport.begin_round(engine.gathered)
        engine.gathered = []
        engine.transport._send_some()
        found = {task: bytes_of(one) for task, one in engine.statistics(tasks)}
        while (result := engine.wait()) is None:
            pass
    assert found == expected
    assert result.participants.keys() == {"c0", "c1"}


# Answers that a client may send, and the reaction to each.


def each(change: Callable[[Statistic], Statistic]) -> SpoilStatistics:
    def spoil(order: StatisticOrder, answer: StatisticAnswer) -> StatisticAnswer:
        changed = {number: change(found) for number, found in answer.statistics.items()}
        return replace(answer, statistics=changed)

    return spoil


def grams(change: Callable[[np.ndarray], np.ndarray]) -> SpoilStatistics:
    return each(lambda found: replace(found, gram=change(found.gram.copy())))


def crosses(change: Callable[[np.ndarray], np.ndarray]) -> SpoilStatistics:
    return each(lambda found: replace(found, cross=change(found.cross.copy())))


def first_diagonal(gram: np.ndarray) -> np.ndarray:
    gram[0] = -1
    return gram


def one_more(order: StatisticOrder, answer: StatisticAnswer) -> StatisticAnswer:
    return StatisticAnswer({**answer.statistics, 99: answer.statistics[0]})


SPOILT: dict[str, tuple[SpoilStatistics, str]] = {
    "not positive": (grams(first_diagonal), "3 statistics left out: refused: its matrix of products is not"),
    "enormous": (grams(lambda array: array * 10**9), "refused: a sum is too large for 12 records"),
    "overflow": (
        grams(lambda array: np.full_like(array, np.iinfo(np.int64).min)),
        "refused: a sum is too large",
    ),
    "too many records": (each(lambda one: one + one), "refused: it says 24 records; it registered 12"),
    "fewer records": (
        each(lambda one: Statistic.empty(one.size - 1, LABELS, one.bits)),
        "refused: it says 0 records; it registered 12",
    ),
    "negative records": (each(lambda one: replace(one, records=-1)), "refused: it says -1 record"),
    "labels": (crosses(lambda array: array[:, ::-1] + 1), "refused: its labels are not those of 12 records"),
    "bits": (each(lambda one: replace(one, bits=8)), "refused: 8 bits; 16 are needed"),
    "shape": (grams(lambda array: array[:-1]), "refused: gram is int64 of shape"),
    "type": (grams(lambda array: array.astype(np.float64)), "refused: gram is float64 of shape"),
    "order of bytes": (crosses(lambda array: array.astype(">i8")), "refused: cross is >i8 of shape"),
    "huge": (crosses(lambda array: np.zeros((1000, 10_000), np.int64)), "bytes; at most"),
    "no number": (each(lambda one: replace(one, records=True)), "its answer cannot be read"),
    "nothing": (lambda order, answer: StatisticAnswer(), "refused: it is not in its answer"),
    "lacks": (lambda order, answer: StatisticAnswer(lacks=("f" * 64,)), "it lacks a module that it has or"),
    "terminal": (
        lambda order, answer: StatisticAnswer(problems=dict.fromkeys(range(3), "\x1b[2J" + "x" * 9999)),
        "3 statistics left out: ",
    ),
    "declined": (lambda order, answer: StatisticAnswer(declined="no\x1b[2J"), "takes no part in statistics"),
}


@pytest.mark.parametrize("kind", SPOILT)
def test_what_cannot_be_used_is_refused_by_name_and_the_others_count(
    trained: Opened, expected: Found, kind: str
) -> None:
    spoil, reason = SPOILT[kind]
    prepared, folder, tasks = trained
    display = Quiet()
    access = Nodes(spoil_statistics=spoil, ours=False)
    found = gathered(access.engine(folder, prepared, display), tasks)
    assert found == {task: expected[task] for task in tasks if task.client != "c1"}
    assert {client for client, _ in display.troubles} == {"c1"}
    assert len(display.troubles) <= 2, "once for each reason"
    for _, what in display.troubles:
        assert reason in what
        assert what.isprintable()
        assert len(what) < 2000


def test_what_was_not_asked_for_is_not_used(trained: Opened, expected: Found) -> None:
    prepared, folder, tasks = trained
    display = Quiet()
    found = gathered(Nodes(spoil_statistics=one_more).engine(folder, prepared, display), tasks)
    assert found == expected
    assert not display.troubles


def leaves(times: int) -> SpoilStatistics:
    left = [times]

    def spoil(order: StatisticOrder, answer: StatisticAnswer) -> StatisticAnswer:
        left[0] -= 1
        if left[0] >= 0:
            raise Gone("nobody there")
        return answer

    return spoil


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(transport, "LOOK_SECONDS", 0.02)


@pytest.mark.usefixtures("quick")
def test_a_client_that_is_away_is_waited_for(trained: Opened, expected: Found) -> None:
    prepared, folder, tasks = trained
    display = Quiet()
    access = Nodes(spoil_statistics=leaves(2))
    assert gathered(access.engine(folder, prepared, display), tasks) == expected
    assert [what for _, what in display.troubles if "waiting for it" in what]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("absent", ["wait", "go-on"])
def test_a_client_whose_program_fails_is_left_out(trained: Opened, expected: Found, absent: str) -> None:
    prepared, folder, tasks = trained
    display = Quiet()
    opened = Nodes(spoil_statistics=leaves(99)).engine(folder, settings(prepared, absent=absent), display)
    found = gathered(opened, tasks)
    assert found == {task: expected[task] for task in tasks if task.client != "c1"}
    assert display.troubles[-1][1].startswith("statistics left out: gave no answer")
    assert len(display.troubles) == (3 if absent == "wait" else 1)


def test_a_client_that_is_slow_is_left_out_after_the_timeout(
    trained: Opened, expected: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "END_SECONDS", 0.2)  # it does not answer at the end, either
    prepared, folder, tasks = trained
    display = Quiet()
    changed = settings(prepared, absent="go-on", timeout=0.3)
    with Nodes(silent=True).engine(folder, changed, display) as engine:
        found = {task: bytes_of(one) for task, one in engine.statistics(tasks)}
    assert found == {task: expected[task] for task in tasks if task.client != "c1"}
    assert display.troubles[0] == ("c1", "statistics left out: has not answered for 0.3 s")


@pytest.mark.usefixtures("quick")
def test_a_client_that_is_not_connected_is_asked_when_it_is(trained: Opened, expected: Found) -> None:
    prepared, folder, tasks = trained
    display = Quiet()
    with Nodes().engine(folder, prepared, display) as engine:
        without_c1_at_first(engine)
        assert {task: bytes_of(one) for task, one in engine.statistics(tasks)} == expected
    assert display.troubles == [("c1", "is not connected; waiting for it")]


def without_c1_at_first(engine: FlowerEngine) -> None:
    inner, looks = engine.transport.connections, iter([True] * 6)
    engine.transport.connections = lambda: {
        name: place for name, place in inner().items() if name != "c1" or not next(looks, False)
    }


def test_the_server_holds_few_answers_at_once(
    trained: Opened, expected: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared, folder, tasks = trained
    monkeypatch.setattr(statistics, "MOST_UNANSWERED", 1)
    most: list[int] = []
    inner = statistics.StatisticGatherer._take

    def noted(self: statistics.StatisticGatherer, reply: Any) -> Any:
        most.append(len(self.unanswered))
        return inner(self, reply)

    monkeypatch.setattr(statistics.StatisticGatherer, "_take", noted)
    assert gathered(Nodes().engine(folder, prepared, ignore), tasks) == expected
    assert most == [1] * 4
