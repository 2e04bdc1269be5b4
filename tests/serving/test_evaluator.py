"""Computing outputs for test records: prepared once, the same with workers, and only if need be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dataset_columns import ids_of
from tiny_deletions import copied
from tiny_world import Quiet, World

from fedsgt.build.train import train
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.records import load_test
from fedsgt.serving.evaluator import Evaluator
from fedsgt.stack.inputs import Content, ImageInputs

SEQUENCES = [[0, 1, 2], [2, 0, 1], [1, 2, 0]]


@pytest.fixture(scope="module")
def trained(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("evaluator") / "run"
    train(images.config(), path, Quiet()).ledger.close()
    return path


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> RunFolder:
    return copied(trained, tmp_path / "run")


def kept(folder: RunFolder) -> list[Path]:
    return sorted(folder.path.glob("modules/*/test-*.safetensors"))


def test_test_records_are_prepared_once_for_all_models(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner, prepared = ImageInputs.item, list[str]()

    def item(self: ImageInputs, record: str, content: Content) -> Any:
        prepared.append(record)
        return inner(self, record, content)

    monkeypatch.setattr(ImageInputs, "item", item)
    test = load_test(folder.config, folder.description.labels)
    for file in kept(folder):
        file.unlink()
    with Evaluator(folder, test) as evaluator:
        evaluator.outputs(folder.live(), [(0,), (2, 0)], lambda share: None)
        evaluator.merged(folder.live(), [(0,), (2, 0), ()])
    assert sorted(prepared) == sorted(ids_of(test.records))


def test_workers_give_the_same_numbers(folder: RunFolder) -> None:
    """Worker processes start once, and only if there is something to compute."""
    test = load_test(folder.config, folder.description.labels)
    every = [tuple(entry.groups) for entry in folder.live().modules()]
    with Evaluator(folder, test) as evaluator:
        inline = evaluator.outputs(folder.live(), every, lambda share: None)
        merged = evaluator.merged(folder.live(), [tuple(order) for order in SEQUENCES])
    with Evaluator(folder, test) as evaluator:
        evaluator.outputs(folder.live(), every, lambda share: None)
        assert "engine" not in vars(evaluator)
    for file in kept(folder):
        file.unlink()
    engine = folder.config.engine.model_copy(update={"workers": 1})
    apart = RunFolder(folder.path, folder.config.model_copy(update={"engine": engine}), folder.description)
    with Evaluator(apart, test) as evaluator:
        found = evaluator.outputs(apart.live(), every, lambda share: None)
        again = evaluator.merged(apart.live(), [tuple(order) for order in SEQUENCES])
    assert merged is not None
    assert again is not None
    assert np.array_equal(merged, again)
    for prefix, one in inline.items():
        assert np.array_equal(found[prefix].probabilities, one.probabilities)
