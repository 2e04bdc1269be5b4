"""A worker's jobs: the right records in one order, the right modules below, and no memory of other jobs."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, product
from typing import Any

import numpy as np
import pytest
from tiny_world import World

from fedsgt.build.prepare import Prepared, prepare
from fedsgt.data import Record
from fedsgt.engine.worker import Setup, Worker
from fedsgt.errors import InputError
from fedsgt.files.tensors import Tensors
from fedsgt.stack.inputs import Item
from fedsgt.store import Modules, open_objects, tensor_hash

KEYS = ("1" * 64, "2" * 64)


@pytest.fixture(scope="module")
def prepared(images: World) -> Prepared:
    return prepare(images.config())


@pytest.fixture(scope="module")
def modules(prepared: Prepared) -> dict[str, Tensors]:
    """Return two modules that change something."""
    stack, rng = prepared.model.stack, np.random.default_rng(0)
    fresh = stack.begin(0, stack.initial_head(0))
    return {
        key: {name: array + rng.normal(0, 0.3, array.shape).astype("f4") for name, array in fresh.items()}
        for key in KEYS
    }


@pytest.fixture
def setup(prepared: Prepared, modules: dict[str, Tensors]) -> Setup:
    made = prepared.setup(Modules(open_objects("memory://worker")), None)
    return replace(made, read_module=modules.__getitem__)


def update(worker: Worker, *parents: str, slices: tuple[int, ...] = (0, 1)) -> str:
    state = worker.stack.begin(5, worker.stack.initial_head(5))
    return tensor_hash(worker.update(parents, state, "c0", slices, seed=1).state)


def test_records_stand_by_id_however_they_were_sliced(setup: Setup, images: World) -> None:
    worker = Worker(setup)
    parts = setup.slices["c0"]
    rows = sorted((row for row in images.rows if row.client == "c0"), key=lambda row: row.id)
    assert [row.id for row in rows] != [record.id for part in parts for record in part.records]
    for order in (parts, parts[::-1]):
        examples = worker._examples(order)
        for (record, item), row in zip(examples, rows, strict=True):
            assert record == Record(row.id, (row.content,), row.label, row.client)
            assert np.array_equal(item["pixels"], worker.inputs.item(row.id, (row.content,))["pixels"])
    assert len(worker._examples(parts[1:])) == len(parts[1])


@pytest.mark.parametrize("slices", [(0, 1, -1), (-2,), (0, 2), (0, 0), (0, True), (0.0, 1), ("0",), ([0],)])
def test_slices_that_a_client_does_not_have_are_refused(setup: Setup, slices: tuple[Any, ...]) -> None:
    """Python counts negative numbers from the end, so that they name slices that are there."""
    worker = Worker(setup)
    refused = r"client c0: asked for slices \[.*\]; allowed: 0 to 1, each at most once"
    with pytest.raises(InputError, match=refused):
        update(worker, slices=slices)
    with pytest.raises(InputError, match=refused):
        worker.statistic((), "c0", slices)


def test_a_job_has_no_memory_of_the_jobs_before_it(setup: Setup) -> None:
    """Every job after every other on one worker, against a new worker for each."""
    jobs = [(), KEYS[:1], KEYS, KEYS[1:]]
    alone = {parents: update(Worker(setup), *parents) for parents in jobs}
    assert len(set(alone.values())) == len(jobs)
    worker = Worker(setup)
    for parents in chain.from_iterable(product(jobs, jobs)):
        assert update(worker, *parents) == alone[parents]


def test_modules_that_could_not_be_read_are_not_taken_for_loaded(
    setup: Setup, modules: dict[str, Tensors]
) -> None:
    fails = [True]

    def read(key: str) -> Tensors:
        if key == KEYS[1] and fails.pop():
            raise InputError("no such module")
        return modules[key]

    worker = Worker(replace(setup, read_module=read))
    update(worker, KEYS[0])
    with pytest.raises(InputError, match="no such module"):
        update(worker, *KEYS)
    fails.append(False)
    assert update(worker, *KEYS) == update(Worker(setup), *KEYS)


def test_few_modules_and_records_in_memory_change_nothing(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedsgt.engine import worker as module

    expected = [update(Worker(setup), *parents) for parents in ((), KEYS, KEYS[:1])]
    monkeypatch.setattr(module, "MOST_MODULES", 1)
    monkeypatch.setattr(module, "MOST_BYTES", 0)
    worker = Worker(setup)
    assert [update(worker, *parents) for parents in ((), KEYS, KEYS[:1])] == expected
    assert len(worker.modules) == 1
    assert len(worker.prepared) == 1


def test_named_records_are_computed_once_for_all_predictions_and_others_are_not_kept(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, computed = Worker(setup), list[str]()
    inner = worker.inputs.item

    def noted(record: str, content: Any) -> Item:
        computed.append(record)
        return inner(record, content)

    monkeypatch.setattr(worker.inputs, "item", noted)
    assert setup.test is not None
    named, nameless = ([*replace(setup.test, fingerprint=name).parts(4)] for name in ("test", ""))
    for parts in (named, nameless):
        one, two = (np.concatenate([worker.predict([KEYS], part) for part in parts], axis=1) for _ in "ab")
        assert np.array_equal(one, two)
    names = [part.fingerprint for part in named]
    assert len(set(names)) == len(names) > 1
    assert computed == 3 * [record.id for record in setup.test.records], "once with names, twice without"
    assert set(worker.prepared) == set(names)
    other = next(setup.test.parts(3))
    assert worker.predict([KEYS], other).shape[1] == len(other), "parts of another size are other parts"
