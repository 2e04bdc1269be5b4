"""The frozen model: known by its hash, never changed, and one-line errors where it cannot be loaded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.numpy import load_file, save_file

from fedsgt.errors import InputError
from fedsgt.stack.backbone import load_backbone

if TYPE_CHECKING:
    from tests.stack.conftest import Tiny

WEIGHTS = "model.safetensors"


def test_the_hash_is_of_the_weights_and_not_of_the_labels(tiny: Tiny, model: str) -> None:
    first = tiny.untouched(model).hash
    torch.manual_seed(77)
    assert tiny.backbone(model).hash == first
    assert tiny.backbone(model, labels=2).hash == first, "the number of labels the file was saved with"
    assert tiny.backbone(model, labels=9).hash == first


def test_models_differ_in_their_hashes(tiny: Tiny) -> None:
    hashes = {name: tiny.untouched(name).hash for name in tiny.folders}
    assert len(set(hashes.values())) == len(hashes)
    assert all(len(code) == 64 for code in hashes.values())


def rewrite(folder: Path, change: Any) -> None:
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


def test_one_weight_more_or_less_is_another_hash(tiny: Tiny, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny.folders["bert"], tmp_path / "bert")

    def load() -> str:
        return load_backbone(str(folder), "text", 5).hash

    def nudge(name: str) -> Any:
        def change(tensors: dict[str, Any]) -> None:
            tensors[name].flat[0] += 1

        return change

    assert load() == tiny.untouched("bert").hash
    rewrite(folder, nudge("classifier.weight"))
    assert load() == tiny.untouched("bert").hash, "the checkpoint's own head is not part of the backbone"
    rewrite(folder, nudge("bert.encoder.layer.2.output.LayerNorm.bias"))
    assert load() != tiny.untouched("bert").hash


def test_another_architecture_of_the_same_weights_is_another_hash(tiny: Tiny, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny.folders["bert"], tmp_path / "bert")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"hidden_act": "relu"}))
    assert load_backbone(str(folder), "text", 5).hash != tiny.untouched("bert").hash


def test_a_weight_changed_in_place_is_seen(tiny: Tiny, model: str) -> None:
    stack = tiny.stack(model)
    stack.backbone.check()
    weight = stack.backbone.model.get_submodule(stack.places.linears[0]).get_parameter("base.weight")
    with torch.no_grad():
        weight[0, 0] += 1e-3
    with pytest.raises(RuntimeError, match="weights were changed"):
        stack.backbone.check()


def test_the_head_is_what_the_trunk_is_not(tiny: Tiny) -> None:
    assert tiny.untouched("vit").head == ("classifier.bias", "classifier.weight")
    assert tiny.untouched("bert").head == ("classifier.bias", "classifier.weight")
    assert {name.rpartition(".")[0] for name in tiny.untouched("distilbert").head} == {
        "classifier",
        "pre_classifier",
    }


def test_everything_is_frozen_and_without_dropout(tiny: Tiny, model: str) -> None:
    found = tiny.untouched(model).model
    assert not any(parameter.requires_grad for parameter in found.parameters())
    assert not any(part.training for part in found.modules())
    assert {parameter.dtype for parameter in found.parameters()} == {torch.float32}


def test_a_missing_pooler_becomes_part_of_the_head(tiny: Tiny, tmp_path: Path) -> None:
    """Modules then train it, and the hash does not depend on its random start."""
    folder = shutil.copytree(tiny.folders["bert"], tmp_path / "bert")
    pooler = ["bert.pooler.dense.bias", "bert.pooler.dense.weight"]
    rewrite(folder, lambda tensors: [tensors.pop(name) for name in pooler])
    torch.manual_seed(1)
    one = load_backbone(str(folder), "text", 5)
    torch.manual_seed(2)
    two = load_backbone(str(folder), "text", 5)
    assert one.head == (*pooler, "classifier.bias", "classifier.weight")
    assert one.hash == two.hash


@pytest.mark.parametrize(
    "lacking",
    [
        "bert.embeddings.position_embeddings.weight",
        "bert.encoder.layer.0.intermediate.dense.weight",
        "bert.encoder.layer.2.output.LayerNorm.weight",
    ],
)
def test_a_checkpoint_that_lacks_weights_is_refused(tiny: Tiny, tmp_path: Path, lacking: str) -> None:
    """Each missing weight would otherwise be random, and be taken for a part of the head."""
    folder = shutil.copytree(tiny.folders["bert"], tmp_path / "bert")
    rewrite(folder, lambda tensors: tensors.pop(lacking))
    refused(str(folder), "text", f"lacks 1 weight of its architecture, such as {lacking}")


def test_a_checkpoint_of_another_shape_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny.folders["bert"], tmp_path / "bert")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"intermediate_size": 40}))
    refused(str(folder), "text", "lacks 9 weights of its architecture")


def refused(name: str, task: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        load_backbone(name, task, 5)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("model.backbone: ")


@pytest.mark.parametrize(
    "name", ["./nowhere", "/nowhere/at/all", "~/no-such-folder-here", "a/b/c", "bert-base-uncased", "a/b:c"]
)
def test_a_path_that_is_none(name: str) -> None:
    refused(
        name, "image", r"does not exist.*\(allowed: a folder with a config.json, or owner/name on the hub\)$"
    )


def test_folders_that_hold_no_model(tiny: Tiny, tmp_path: Path) -> None:
    refused(str(tmp_path), "image", "has no config.json; give the folder of a model")
    (tmp_path / "config.json").write_text("what")
    refused(str(tmp_path), "image", "its config.json is not the JSON of a model; fetch it again")
    shutil.copy(tiny.folders["vit"] / "config.json", tmp_path)
    refused(str(tmp_path), "image", "no file named model.safetensors")
    (tmp_path / WEIGHTS).write_bytes((tiny.folders["vit"] / WEIGHTS).read_bytes()[:-100])
    refused(str(tmp_path), "image", "incomplete metadata")


def test_a_model_for_another_task(tiny: Tiny) -> None:
    advice = 'set model.task = "image", or give a backbone for texts'
    told = rf"is a model for images \(vit\), and model.task is text; {advice}"
    refused(str(tiny.folders["vit"]), "text", told)
    refused(str(tiny.folders["bert"]), "image", r"is a model for texts \(bert\), and model.task is image")
