"""Statistics and features of a worker: the same bits whatever company, cache or slicing records have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tiny_world import LABELS, World

from fedsgt.build.prepare import Prepared, prepare
from fedsgt.config import load
from fedsgt.data import Slice, in_sample
from fedsgt.engine import worker as worker_module
from fedsgt.engine.worker import Setup, Worker
from fedsgt.files.tensors import Tensors
from fedsgt.stack.inputs import Item
from fedsgt.stack.statistics import Statistic
from fedsgt.stack.steady import in_steady_batches
from fedsgt.store import Modules, open_objects

KEYS = ("1" * 64, "2" * 64)
CHAINS = ((), KEYS[:1], KEYS)
BOTH = (0, 1)


def setup_of(prepared: Prepared, cache: Path | None = None) -> Setup:
    """Return a setup with two modules that change something."""
    stack, rng = prepared.model.stack, np.random.default_rng(0)
    fresh = stack.finish(stack.begin(0, stack.initial_head(0)))
    modules: dict[str, Tensors] = {
        key: {name: array + rng.normal(0, 0.3, array.shape).astype("f4") for name, array in fresh.items()}
        for key in KEYS
    }
    made = prepared.setup(Modules(open_objects("memory://statistics")), cache)
    return replace(made, read_module=modules.__getitem__)


@pytest.fixture(scope="module")
def setup(images: World) -> Setup:
    return setup_of(prepare(images.config()))


def parts_of(found: Statistic) -> tuple[bytes, bytes, int, int]:
    return found.gram.tobytes(), found.cross.tobytes(), found.records, found.bits


@pytest.mark.parametrize("task", ["images", "texts"])
@pytest.mark.parametrize("kind", ["lora", "ia3", "prefix"])
@pytest.mark.parametrize("layers", ["all", "1"])
def test_what_is_left_after_a_deletion_is_a_statistic_made_without_the_records(
    request: pytest.FixtureRequest, tmp_path: Path, task: str, kind: str, layers: str
) -> None:
    """In bytes: cached or not, in slices of any composition, under every chain."""
    world: World = request.getfixturevalue(task)
    prepared = prepare(world.config(f"peft.kind={kind}", f"peft.layers={layers}"))
    setup = setup_of(prepared, tmp_path / "cache")
    held = setup.slices["c0"]
    gone, left = held[0].records[1:3], (held[0].records[0], *held[0].records[3:])
    cut = {**setup.slices, "c0": [replace(held[0], records=left, fingerprint="rest"), held[1]]}
    worker, again, rest = Worker(setup), Worker(setup), Worker(replace(setup, slices=cut, cache=None))
    for chain in CHAINS:
        whole = worker.statistic(chain, "c0", BOTH)
        assert whole.records == len(held[0]) + len(held[1])
        assert whole.size == prepared.model.stack.feature_width(chain) + 1
        assert parts_of(again.statistic(chain, "c0", BOTH[::-1])) == parts_of(whole), "from the cache"
        deleted = worker.statistic_of(chain, "c0", Slice("", gone))
        assert deleted is not None
        assert deleted.records == len(gone)
        assert parts_of(whole - deleted) == parts_of(rest.statistic(chain, "c0", BOTH))
    assert len({parts_of(worker.statistic(chain, "c0", BOTH)) for chain in CHAINS}) == len(CHAINS)


def test_the_activations_of_training_stay_as_they_are(texts: World, tmp_path: Path) -> None:
    """Both lie in the folder of their slice, where a deletion finds them."""
    setup = setup_of(prepare(texts.config("peft.layers=1")), tmp_path)
    worker = Worker(setup)
    state = worker.stack.begin(5, worker.stack.initial_head(5))
    worker.update((), state, "c0", BOTH, seed=1)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.activations")}
    worker.statistic((), "c0", BOTH)
    after = {path: path.read_bytes() for path in tmp_path.rglob("*.activations")}
    assert before.items() <= after.items()
    assert len(after) == 2 * len(before) == 4
    assert {path.parent.name for path in after} == {part.fingerprint for part in setup.slices["c0"]}
    fresh = Worker(replace(setup, cache=None)).statistic((), "c0", BOTH)
    assert parts_of(Worker(setup).statistic((), "c0", BOTH)) == parts_of(fresh)


def test_a_statistic_of_deleted_records_leaves_nothing_behind(texts: World, tmp_path: Path) -> None:
    setup = setup_of(prepare(texts.config("peft.layers=1")), tmp_path)
    worker = Worker(setup)
    assert worker.statistic_of(KEYS, "c0", replace(setup.slices["c0"][0], fingerprint="gone")) is not None
    assert not [*tmp_path.rglob("*")]
    assert not worker.prepared


def test_a_sample_is_chosen_record_by_record(images: World, setup: Setup) -> None:
    share = 0.5
    half = replace(setup, run=images.config(f"heads.share={share}"))
    salt = setup.secrets["c0"]
    kept = [
        replace(part, records=tuple(r for r in part.records if in_sample(salt, r.id, share)))
        for part in setup.slices["c0"]
    ]
    sampled = Worker(half).statistic(KEYS, "c0", BOTH)
    assert 0 < sampled.records < sum(map(len, setup.slices["c0"]))
    alone = Worker(replace(setup, slices={"c0": kept})).statistic(KEYS, "c0", BOTH)
    assert parts_of(sampled) == parts_of(alone)
    deleted = Worker(half).statistic_of(KEYS, "c0", replace(setup.slices["c0"][0], fingerprint=""))
    assert deleted is not None
    assert deleted.records == len(kept[0]), "a record that was never in the sum must not be taken away"


def test_a_client_without_records_has_the_statistic_of_none(setup: Setup) -> None:
    empty = replace(setup, slices={"c0": [replace(part, records=()) for part in setup.slices["c0"]]})
    for chain in CHAINS:
        worker = Worker(empty)
        width = worker.stack.feature_width(chain)
        expected = parts_of(Statistic.empty(width, LABELS, setup.run.heads.bits))
        assert parts_of(worker.statistic(chain, "c0", BOTH)) == expected
        none = worker.statistic_of(chain, "c0", Slice("", ()))
        assert none is not None
        assert parts_of(none) == expected


def test_nothing_is_subtracted_where_features_depend_on_company(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine's products may round by the place in the batch; here the last bit of some does."""

    def unsteady(items: Sequence[Item], longest: int, compute: Any) -> list[NDArray[Any]]:
        rows = in_steady_batches(items, longest, compute)
        return [np.nextafter(row, np.inf) if place % 5 == 0 else row for place, row in enumerate(rows)]

    records = replace(setup.slices["c0"][0], fingerprint="")
    assert Worker(setup).statistic_of(KEYS, "c0", records) is not None
    monkeypatch.setattr(worker_module, "in_steady_batches", unsteady)
    assert Worker(setup).statistic_of(KEYS, "c0", records) is None
    one = replace(records, records=records.records[:1])
    assert Worker(setup).statistic_of(KEYS, "c0", one) is None, "a single record is compared in company"


@pytest.mark.parametrize("task", ["images", "texts"])
def test_outputs_are_predictions_with_features(request: pytest.FixtureRequest, task: str) -> None:
    world: World = request.getfixturevalue(task)
    setup = setup_of(prepare(world.config()))
    assert setup.test is not None
    worker = Worker(setup)
    outputs = worker.outputs(CHAINS, setup.test)
    predicted = Worker(setup).predict(CHAINS, setup.test)
    assert [found.probabilities.tobytes() for found in outputs] == [one.tobytes() for one in predicted]
    assert np.all(outputs[0].probabilities == np.float32(1 / LABELS))
    for chain, found in zip(CHAINS, outputs, strict=True):
        assert found.features.dtype == np.float32
        assert found.features.shape == (len(setup.test), worker.stack.feature_width(chain))
        worker._load(chain)
        steady = worker._features(worker._raw(setup.test.records))
        assert np.allclose(found.features, steady, atol=1e-5)


def test_features_of_the_bundled_model_have_the_same_bits_in_any_company() -> None:
    overrides = ["data.limit=120", "data.clients=2", "grouping.slices=1", "grouping.groups=2"]
    prepared = prepare(load(None, [*overrides, "peft.layers=2", "engine.workers=0"]))
    setup = setup_of(prepared)
    worker = Worker(setup)
    name = next(iter(setup.slices))
    records = setup.slices[name][0].records
    for chain in CHAINS:
        worker._load(chain)
        whole = worker._features(worker._steadily_lowered(worker._raw(records)))
        sevens = [
            worker._features(worker._steadily_lowered(worker._raw(records[start : start + 7])))
            for start in range(0, len(records), 7)
        ]
        assert np.concatenate(sevens).tobytes() == whole.tobytes()
