"""Groups of a new run: by every method, and with what those that look at the data are told of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tiny_world import CLIENTS, Quiet, World

from fedsgt.build.group_slices import first_updates, slice_embeddings
from fedsgt.build.prepare import describe, prepare
from fedsgt.build.train import train
from fedsgt.runs.state import DeletedData

LOOKS = {"random": False, "affinity": False, "bac": True, "centered": True, "updates": True}


@pytest.mark.parametrize("method", LOOKS)
def test_every_grouping_is_recorded_with_whether_it_looks_at_data(
    images: World, tmp_path: Path, method: str
) -> None:
    run = images.config("grouping.groups=2", f"grouping.method={method}")
    folder = train(run, tmp_path / "run", Quiet())
    description = folder.description
    assert (description.grouping, description.looks_at_data) == (method, LOOKS[method])
    if method != "updates":
        assert sorted(np.bincount(description.group_of).tolist()) == [4, 4]
    made = description.grouping_made()
    assert (made.method, made.looks_at_data) == (method, LOOKS[method])
    assert made.group_of.tolist() == prepare(run).grouping.group_of.tolist(), "the same again"


def test_affinity_keeps_a_client_in_few_groups(images: World) -> None:
    """Four clients with two slices each fill two groups without being split."""
    counts = prepare(images.config("grouping.groups=2", "grouping.method=affinity")).grouping.counts()
    assert ((counts > 0).sum(axis=1) == 1).all()


def test_a_grouping_that_looks_at_data_follows_it_and_one_that_was_decided_does_not(images: World) -> None:
    run = images.config("grouping.method=bac")
    first = prepare(run)
    decided = describe(prepare(images.config("grouping.method=random")))
    assert prepare(run, decided).grouping.group_of.tolist() == decided.group_of
    assert first.grouping.group_of.tolist() != decided.group_of
    vectors = slice_embeddings(first.data, first.model)
    assert vectors.shape == (8, 16)
    row = images.rows[0]
    changed = prepare(images.instead(row, content=images.rows[1].content).config("grouping.method=bac"))
    moved = slice_embeddings(changed.data, changed.model)
    assert (moved != vectors).any(axis=1).sum() == 1, "only the slice of the changed record"


def test_an_empty_slice_has_the_mean_of_the_others(images: World) -> None:
    prepared = prepare(images.config())
    emptied = prepared.data.without({0: DeletedData(slices=frozenset({1}))})
    vectors = slice_embeddings(emptied, prepared.model)
    assert vectors[1] == pytest.approx(np.delete(vectors, 1, axis=0).mean(axis=0))


def test_first_updates_are_of_each_clients_own_records(images: World) -> None:
    """Other clients make no difference."""
    run = images.config()
    prepared = prepare(run)
    whole = first_updates(run, prepared.data, prepared.model.stack)
    assert whole.any(axis=1).tolist() == [True] * CLIENTS
    emptied = prepared.data.without({2: DeletedData(slices=frozenset({0, 1}))})
    without = first_updates(run, emptied, prepared.model.stack)
    assert without.any(axis=1).tolist() == [True, True, False, True]
    assert np.array_equal(np.delete(without, 2, axis=0), np.delete(whole, 2, axis=0))
    slow = images.config("training.learning_rate=1e-9")
    changes = first_updates(slow, prepared.data, prepared.model.stack)
    assert np.abs(changes).max() < 1e-6, "what they change, and not what they are"


def test_first_updates_of_worker_processes_are_the_same(images: World) -> None:
    prepared = prepare(images.config())
    here = first_updates(images.config(), prepared.data, prepared.model.stack)
    there = first_updates(images.config("engine.workers=2"), prepared.data, prepared.model.stack)
    assert np.array_equal(here, there)
