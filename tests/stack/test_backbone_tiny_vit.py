"""The bundled backbone: small, complete, without a head, made from the public part of the digits alone."""

from __future__ import annotations

import importlib.util
import json
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import Tensor
from transformers import ViTModel

from fedsgt.config.sections import Model
from fedsgt.data import Columns, load_dataset
from fedsgt.stack.backbone import load_backbone
from fedsgt.stack.checkpoint_files import BUNDLED
from fedsgt.stack.inputs import make_inputs

datasets_of_sklearn = import_module("sklearn.datasets")

NAME = "fedsgt/tiny-vit"
FOLDER = BUNDLED[NAME]
SCRIPT = Path(__file__).parents[2] / "scripts" / "make_tiny_vit.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location(SCRIPT.stem, SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load() -> tuple[ViTModel, dict[str, Any]]:
    found: Any = ViTModel.from_pretrained(FOLDER, add_pooling_layer=False, output_loading_info=True)
    model, loading = found
    return model, loading


def stored(folder: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    with safe_open(folder / "model.safetensors", framework="numpy") as file:
        parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        return {name: (tuple(part.get_shape()), part.get_dtype()) for name, part in parts.items()}


def features(part: str) -> tuple[Tensor, Tensor]:
    """Return features computed as for a client's record: from its file, by the inputs and the trunk."""
    digits = load_dataset("digits", Columns(inputs=("image",)), split=part)  # type: ignore[arg-type]
    backbone = load_backbone(NAME, "image", labels=10)
    inputs = make_inputs(Model(backbone=NAME), backbone)
    batch = inputs.batch([inputs.item(record.id, record.content) for record in digits.records])
    with torch.no_grad():
        found: Tensor = backbone.model.base_model(**batch).last_hidden_state[:, 0]
    return found, torch.tensor(digits.labels)


def test_it_is_small_and_readable_by_all() -> None:
    files = sorted(FOLDER.iterdir())
    assert [file.name for file in files] == [
        "README.md",
        "config.json",
        "model.safetensors",
        "preprocessor_config.json",
    ]
    assert sum(file.stat().st_size for file in files) <= 1_000_000
    assert all(file.stat().st_mode & 0o044 == 0o044 for file in files)


def test_the_trunk_is_complete_and_is_loaded_in_single_precision() -> None:
    model, loading = load()
    assert not any(loading.values()), loading
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_no_head_is_stored() -> None:
    assert {name.partition(".")[0] for name in stored(FOLDER)} == {"embeddings", "encoder", "layernorm"}
    assert len(stored(FOLDER)) == len(list(load()[0].parameters()))
    assert load_backbone(NAME, "image", labels=10).head == ("classifier.bias", "classifier.weight")


def test_its_preprocessing_is_what_it_was_made_with(script: ModuleType) -> None:
    inputs = make_inputs(Model(backbone=NAME), load_backbone(NAME, "image", labels=10))
    assert inputs.describe() == {"task": "image", "size": 8, "mean": script.MEAN, "std": script.STD}


def test_public_digits_teach_the_test_digits() -> None:
    """Classify by the nearest class centre: nothing is trained, so the accuracy is the backbone's."""
    (known, labels), (asked, truth) = features("public"), features("test")
    centres = torch.stack([known[labels == label].mean(dim=0) for label in range(10)])
    accuracy = (torch.cdist(asked, centres).argmin(dim=1) == truth).float().mean()
    assert accuracy > 0.95


def test_the_script_learns_from_the_public_part_alone(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Watch what reaches the training loop and what is written."""
    seen: list[tuple[Tensor, Tensor]] = []
    pretrain = script.pretrain

    def watched(images: Tensor, labels: Tensor, seed: int) -> Any:
        seen.append((images, labels))
        return pretrain(images, labels, seed)

    monkeypatch.setattr(script, "STEPS", 12)
    monkeypatch.setattr(script, "pretrain", watched)
    monkeypatch.setattr(sys, "argv", ["make_tiny_vit.py", "--out", str(tmp_path)])
    script.main()

    ((images, labels),) = seen
    digits = datasets_of_sklearn.load_digits()
    public = [index for index in range(len(digits.target)) if index % 5 == 3]
    pixels = np.rint((images.numpy() * 0.5 + 0.5) * 16)
    assert labels.tolist() == digits.target[public].tolist()
    assert (pixels == digits.images[public][:, None]).all()
    assert stored(tmp_path) == stored(FOLDER)
    for name in ("config.json", "preprocessor_config.json"):
        made, kept = (json.loads((folder / name).read_text("utf-8")) for folder in (tmp_path, FOLDER))
        for config in (made, kept):
            config.pop("transformers_version", None)
        assert made == kept


def test_training_is_repeatable(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "STEPS", 12)
    images, labels = script.tensors(script.public_digits())
    first, again = (script.pretrain(images, labels, 0)[0].state_dict() for _ in range(2))
    other = script.pretrain(images, labels, 1)[0].state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)
