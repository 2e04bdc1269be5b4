"""Heads solved from statistics: those of a plain ridge regression on retained records, and of no others."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tiny_world import LABELS, Quiet, Row, World

from fedsgt.build.statistics import renew_statistics
from fedsgt.build.train import train
from fedsgt.plans import FLOOR, choose, choose_solved
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.runs.statistics import (
    discard_damaged,
    present_statistics,
    read_statistic,
    record_statistics,
    write_statistic,
)
from fedsgt.serving import heads as heads_module
from fedsgt.serving.predictor import Exhausted, Predictions, Predictor
from fedsgt.stack import ridge
from fedsgt.stack.model import open_model
from fedsgt.stack.statistics import Statistic
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn

Floats = NDArray[np.float64]
SOLVED = ("heads.solve=true", "heads.ridge=1.0")


@pytest.fixture(scope="module")
def trained(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("heads") / "run"
    train(images.config(*SOLVED), path, Quiet()).ledger.close()
    return path


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> RunFolder:
    return open_run(shutil.copytree(trained, tmp_path / "run"))


@pytest.fixture(scope="module")
def contents(images: World) -> list[bytes]:
    return contents_of(images.rows[:7])


def contents_of(rows: Sequence[Row]) -> list[bytes]:
    return [row.content for row in rows if isinstance(row.content, bytes)]


def without(images: World, *clients: str) -> list[Row]:
    return [row for row in images.rows if row.client not in clients]


def features(folder: RunFolder, prefix: tuple[int, ...], contents: list[bytes]) -> Floats:
    """Compute features, with a 1 appended, by a stack alone."""
    model = open_model(folder.config, folder.description.labels)
    model.stack.load([folder.modules.get(key) for key in folder.description.chain(prefix)])
    items = [model.inputs.item("", (content,)) for content in contents]
    with torch.no_grad():
        found = model.stack.outputs(model.inputs.batch(items))[1].double().numpy()
    return np.hstack([found, np.ones((len(found), 1))])


def by_hand(folder: RunFolder, prefix: tuple[int, ...], rows: Sequence[Row], contents: list[bytes]) -> Floats:
    """Return probabilities of a ridge regression on the labels of these rows."""
    x = features(folder, prefix, contents_of(rows))
    labels = [row.label for row in rows]
    counts = np.bincount(labels, minlength=LABELS)
    y = np.eye(LABELS)[labels] * np.sqrt(len(labels) / LABELS / np.maximum(counts, 1))
    weights = np.linalg.solve(x.T @ x + np.eye(x.shape[1]), x.T @ y)
    raised = np.exp(8 * features(folder, prefix, contents) @ weights)
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def mixed(
    folder: RunFolder, prefixes: Sequence[tuple[int, ...]], rows: Sequence[Row], contents: list[bytes]
) -> Floats:
    weights = [len(prefix) ** 2 for prefix in prefixes] + [0.5]
    found = [by_hand(folder, prefix, rows, contents) for prefix in (*prefixes, ())]
    return np.average(found, axis=0, weights=weights)


def delete(folder: RunFolder, client: str, *slices: int) -> None:
    """Delete slices of a client, or everything, by another object of the same run."""
    other = open_run(folder.path)
    unlearn(other, [Deletion(client, slices=slices or None)])
    other.ledger.close()


def live(folder: RunFolder) -> list[tuple[int, ...]]:
    return [prefix for _, prefix, _ in choose("all", folder.live().prefixes(folder.present()))]


def test_solved_heads_are_those_of_a_plain_ridge_regression(
    images: World, folder: RunFolder, contents: list[bytes]
) -> None:
    found = Predictor(folder).predict(contents)
    expected = mixed(folder, live(folder), images.rows, contents)
    assert np.abs(found.probabilities - expected).max() < 2e-3  # features are quantised
    assert found.solved_from == len(images.rows)
    assert found.floor == pytest.approx(0.5 / (3 * 9 + 0.5))
    assert all(sequence.solved for sequence in found.sequences)
    trained = Predictor(folder, heads="trained").predict(contents)
    assert (trained.floor, trained.solved_from) == (0, 0)
    assert np.abs(trained.probabilities - found.probabilities).max() > 0.01


def test_a_deletion_takes_its_clients_statistics_out_until_new_ones_are_made(
    images: World, folder: RunFolder, contents: list[bytes]
) -> None:
    predictor = Predictor(folder)
    predictor.predict(contents)
    delete(folder, "c0", 0)
    found = predictor.predict(contents)
    assert found.solved_from == len(without(images, "c0"))
    assert (
        np.abs(found.probabilities - mixed(folder, live(folder), without(images, "c0"), contents)).max()
        < 2e-3
    )
    renew_statistics(folder)
    again = predictor.predict(contents)
    retained = len(images.rows) - sum(part["count"] for part in folder.live().requests[0].body["parts"])
    assert again.solved_from == retained > found.solved_from


def test_the_bare_backbone_answers_while_a_record_is_left(
    images: World, folder: RunFolder, contents: list[bytes]
) -> None:
    predictor = Predictor(folder)
    for client in ("c0", "c1", "c2"):
        delete(folder, client)
    found = predictor.predict(contents)
    assert (found.sequences, found.floor, found.bare_backbone) == ((), 1.0, False)
    assert (
        np.abs(found.probabilities - mixed(folder, [], without(images, "c0", "c1", "c2"), contents)).max()
        < 2e-3
    )
    delete(folder, "c3")
    with pytest.raises(Exhausted, match="no record is left"):
        predictor.predict(contents)


def test_a_deletion_during_the_computation_is_in_no_answer(
    images: World, folder: RunFolder, contents: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    # No module is left that could give the deletion away: it is noticed by its statistics alone.
    for client in ("c0", "c1"):
        delete(folder, client)
    assert live(folder) == []
    predictor = Predictor(folder)
    computed, before = list[int](), predictor.worker.outputs

    def outputs(*given: Any) -> Any:
        computed.append(1)
        if len(computed) == 1:
            delete(folder, "c2", 0)
        return before(*given)

    monkeypatch.setattr(predictor.worker, "outputs", outputs)
    found = predictor.predict(contents)
    assert (len(computed), found.solved_from) == (2, len(without(images, "c0", "c1", "c2")))


def test_heads_leave_the_memory_with_a_look_at_the_ledger(folder: RunFolder, contents: list[bytes]) -> None:
    predictor = Predictor(folder)
    predictor.predict(contents)
    assert isinstance(predictor.solver, heads_module.HeadSolver)
    assert predictor.solver.known
    delete(folder, "c0", 0)
    predictor.refresh()
    assert (predictor.solver.known, predictor.solver.last) == ({}, None)


def test_a_head_is_solved_once(
    folder: RunFolder, contents: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    solved, before = list[int](), ridge.solve

    def solve(*given: Any) -> Any:
        solved.append(1)
        return before(*given)

    monkeypatch.setattr(heads_module, "solve", solve)
    predictor = Predictor(folder)
    for _ in range(3):
        predictor.predict(contents)
    assert len(solved) == 4  # three sequences and the bare backbone


def test_a_damaged_statistic_is_left_out_until_it_is_whole(
    images: World, folder: RunFolder, contents: list[bytes]
) -> None:
    name = next(name for name in sorted(present_statistics(folder)) if name.chain == "backbone")
    file = folder.path / name.file
    whole = file.read_bytes()
    file.write_bytes(whole[:-8])
    predictor = Predictor(folder)
    fewer = predictor.predict(contents).solved_from
    assert fewer == len(images.rows) - 12
    file.write_bytes(whole)
    delete(folder, "c3", 0)  # any entry of the ledger makes it look again
    assert predictor.predict(contents).solved_from == len(without(images, "c3"))


def test_a_statistic_that_takes_the_place_of_another_is_noticed(
    folder: RunFolder, contents: list[bytes]
) -> None:
    """Records that left their source end a statistic, and the new one has the same name."""
    predictor = Predictor(folder)
    before = predictor.predict(contents)
    name = next(name for name in sorted(present_statistics(folder)) if name.chain == "backbone")
    whole = read_statistic(folder, name)
    assert whole is not None
    one = Statistic.of(np.zeros((1, whole.size - 1), np.float32), [0], LABELS, whole.bits)
    write_statistic(folder, name, whole - one)  # any other sums will do
    record_statistics(folder, new=True)
    found = predictor.predict(contents)
    assert found.solved_from == before.solved_from - 1
    assert np.array_equal(found.probabilities, Predictor(folder).predict(contents).probabilities)


@pytest.mark.parametrize("background", [False, True])
def test_a_damaged_statistic_that_is_made_anew_is_noticed(
    folder: RunFolder, contents: list[bytes], background: bool
) -> None:
    name = next(name for name in sorted(present_statistics(folder)) if name.chain == "backbone")
    file = folder.path / name.file
    file.write_bytes(file.read_bytes()[:-8] + b"\0" * 8)
    predictor = Predictor(folder, background=background)
    fewer = settled(predictor, contents).solved_from
    other = open_run(folder.path)
    assert (discard_damaged(other), renew_statistics(other)) == (1, 1)
    assert settled(predictor, contents).solved_from == fewer + 12


def settled(predictor: Predictor, contents: list[bytes]) -> Predictions:
    """Predict once the heads are solved."""
    predictor.predict(contents)
    if isinstance(predictor.solver, heads_module.BackgroundSolver) and predictor.solver.thread is not None:
        predictor.solver.thread.join(60)
    return predictor.predict(contents)


def test_no_head_of_a_dead_chain_is_kept_whoever_was_hit(
    folder: RunFolder, contents: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that takes no part in statistics has no mark in any head, and its deletions end chains too."""
    for name in present_statistics(folder):
        if name.client == 0:
            (folder.path / name.file).unlink()
    held = Held(monkeypatch, at_once=1)  # the bare backbone's; the next is a chain that dies
    predictor = Predictor(folder, background=True)
    predictor.predict(contents)
    assert held.begun.wait(60)
    delete(folder, "c0")
    predictor.refresh()
    finish(predictor, held)
    assert isinstance(predictor.solver, heads_module.BackgroundSolver)
    solver, alive = predictor.solver.solver, {entry.key for entry in folder.live().modules()} | {"backbone"}
    assert solver.known.keys() <= alive
    assert solver.last is None or solver.last[2].by_chain.keys() == {()}


class Held:
    """Solving that waits until it may go on, after some heads that are solved at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at_once: int = 0) -> None:
        self.go, self.begun, self.solve, self.at_once = Event(), Event(), ridge.solve, at_once
        monkeypatch.setattr(heads_module, "solve", self)

    def __call__(self, *given: Any) -> Any:
        if self.at_once:
            self.at_once -= 1
            return self.solve(*given)
        self.begun.set()
        assert self.go.wait(60)
        return self.solve(*given)


def finish(predictor: Predictor, held: Held) -> None:
    assert isinstance(predictor.solver, heads_module.BackgroundSolver)
    assert predictor.solver.thread is not None
    held.go.set()
    predictor.solver.thread.join(60)


def test_in_the_background_trained_heads_answer_until_others_are_solved(
    folder: RunFolder, contents: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    predictor = Predictor(folder, background=True)
    first = predictor.predict(contents)
    paper = Predictor(folder, heads="trained").predict(contents)
    assert np.array_equal(first.probabilities, paper.probabilities)
    assert (first.floor, first.solved_from) == (0, 0)
    finish(predictor, held)
    solved = predictor.predict(contents)
    assert np.array_equal(solved.probabilities, Predictor(folder).predict(contents).probabilities)
    assert solved.floor > 0


def test_in_the_background_a_head_that_a_deletion_overtakes_is_not_kept(
    images: World, folder: RunFolder, contents: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    predictor = Predictor(folder, background=True)
    predictor.predict(contents)
    assert held.begun.wait(60)
    delete(folder, "c0", 0)
    predictor.refresh()
    finish(predictor, held)
    assert isinstance(predictor.solver, heads_module.BackgroundSolver)
    assert predictor.solver.solver.known == {}
    predictor.predict(contents)
    finish(predictor, held)
    assert predictor.predict(contents).solved_from == len(without(images, "c0"))


def test_in_the_background_heads_of_fewer_statistics_answer_while_they_count(
    images: World, folder: RunFolder, contents: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    delete(folder, "c0", 0)
    predictor = Predictor(folder, background=True)
    predictor.predict(contents)
    assert isinstance(predictor.solver, heads_module.BackgroundSolver)
    assert predictor.solver.thread is not None
    predictor.solver.thread.join(60)
    assert predictor.predict(contents).solved_from == len(without(images, "c0"))
    held = Held(monkeypatch)
    renew_statistics(open_run(folder.path))
    assert predictor.predict(contents).solved_from == len(without(images, "c0"))
    finish(predictor, held)
    assert predictor.predict(contents).solved_from > len(without(images, "c0"))


def test_in_the_background_without_a_module_the_bare_backbones_head_is_waited_for(
    folder: RunFolder, contents: list[bytes]
) -> None:
    predictor = Predictor(folder, background=True)
    for client in ("c0", "c1", "c2"):
        delete(folder, client)
    found = predictor.predict(contents)
    assert (found.sequences, found.floor) == ((), 1.0)


def test_an_error_in_the_background_is_told(
    folder: RunFolder, contents: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: Any) -> None:
        raise np.linalg.LinAlgError("no convergence")

    monkeypatch.setattr(heads_module, "solve", fail)
    predictor = Predictor(folder, background=True)
    predictor.predict(contents)
    assert isinstance(predictor.solver, heads_module.BackgroundSolver)
    assert predictor.solver.thread is not None
    predictor.solver.thread.join(60)
    with pytest.raises(np.linalg.LinAlgError, match="no convergence"):
        predictor.predict(contents)


def test_merged_keeps_its_trained_heads_and_the_bare_backbone_comes_after_it() -> None:
    assert choose_solved("merged", [(0, 1), (2,)]) == choose("merged", [(0, 1), (2,)])
    assert choose_solved("merged", [(), ()]) == [(FLOOR, (), 1.0)]
