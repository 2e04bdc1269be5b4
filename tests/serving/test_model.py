"""A run is served with the backbone and the inputs of its training, or not at all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_world import Quiet, World, save_models

from fedsgt.build.train import train
from fedsgt.errors import InputError
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.serving.evaluation import evaluate
from fedsgt.serving.export import export_sequence
from fedsgt.serving.model import open_model_of
from fedsgt.serving.predictor import Predictor

WAYS: list[Callable[[RunFolder], object]] = [
    open_model_of,
    Predictor,
    evaluate,
    lambda folder: export_sequence(folder, 0, None, folder.path.parent / "adapter"),
]


@pytest.fixture(scope="module")
def trained(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "run"
    train(images.config("grouping.groups=1"), path, Quiet()).ledger.close()
    return path


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> RunFolder:
    return open_run(shutil.copytree(trained, tmp_path / "run"))


def on(folder: RunFolder, backbone: Path) -> RunFolder:
    """Return the run with its backbone at another place."""
    model = folder.config.model.model_copy(update={"backbone": str(backbone)})
    return replace(folder, config=folder.config.model_copy(update={"model": model}))


def refused(folder: RunFolder, way: Callable[[RunFolder], object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        way(folder)
    assert not (folder.path.parent / "adapter").exists()


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_of_the_backbone_will_do(
    folder: RunFolder, tmp_path: Path, way: Callable[[RunFolder], object]
) -> None:
    copy = shutil.copytree(folder.config.model.backbone, tmp_path / "copy")
    way(on(folder, copy))


@pytest.mark.parametrize("way", WAYS)
def test_other_weights_are_refused(
    folder: RunFolder, tmp_path: Path, way: Callable[[RunFolder], object]
) -> None:
    save_models(tmp_path / "models", seed=6)
    other = on(folder, tmp_path / "models" / "vit")
    refused(other, way, "the backbone's weights are not those that this run was trained on")


@pytest.mark.parametrize("way", WAYS)
def test_inputs_that_are_prepared_in_another_way_are_refused(
    folder: RunFolder, tmp_path: Path, way: Callable[[RunFolder], object]
) -> None:
    copy = shutil.copytree(folder.config.model.backbone, tmp_path / "copy")
    (copy / "preprocessor_config.json").write_text(json.dumps({"image_mean": [0.1, 0.2, 0.3]}))
    refused(on(folder, copy), way, "tokenizer or image settings of the backbone changed since training")
