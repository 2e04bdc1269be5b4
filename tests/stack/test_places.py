"""Layers and linear layers are found by exact name: `layers.1` is neither `layers.10` nor `layers.11`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from transformers import PreTrainedModel

from fedsgt.config.sections import Peft
from fedsgt.errors import InputError
from fedsgt.stack.backbone import load_backbone
from fedsgt.stack.places import KEY, QUERY, VALUE, find_places, layer_names
from fedsgt.stack.stack import Stack

if TYPE_CHECKING:
    from tests.stack.conftest import Tiny


@pytest.fixture
def deep(tiny: Tiny, tmp_path: Path) -> Stack:
    backbone = load_backbone(str(tiny.save(tmp_path, "vit", layers=12)), "image", 5)
    return Stack(backbone, Peft(rank=2, layers=["vit.layers.1"]))


def touched_layers(stack: Stack) -> set[str]:
    """Return the layers whose parameters a phase trains."""
    state = stack.begin(0, stack.initial_head(0))
    return {".".join(name.split(".")[:3]) for name in stack.open(state) if not name.startswith("head.")}


def test_one_layer_of_twelve(deep: Stack) -> None:
    assert touched_layers(deep) == {"vit.layers.1"}
    assert deep.start == 1
    assert deep.places.layers == tuple(f"vit.layers.{index}" for index in range(12))


def test_the_check_above_sees_more_layers_than_one(tiny: Tiny, tmp_path: Path) -> None:
    """Give the layers that a match by part of the name would have taken."""
    backbone = load_backbone(str(tiny.save(tmp_path, "vit", layers=12)), "image", 5)
    matched = [name for name in layer_names(backbone.model) if "vit.layers.1" in name]
    assert touched_layers(Stack(backbone, Peft(rank=2, layers=matched))) == {*matched}
    assert matched == ["vit.layers.1", "vit.layers.10", "vit.layers.11"]


def test_top_layers_are_counted_from_above(tiny: Tiny, model: str) -> None:
    known = tiny.stack(model).places
    two = tiny.stack(model, layers=2).places
    assert len(known.layers) == 3
    assert known.chosen == known.layers
    assert two.chosen == known.layers[1:]
    assert (known.start, two.start) == (0, 1)


def test_named_layers_keep_the_models_order(tiny: Tiny) -> None:
    found = tiny.stack("vit", layers=["vit.layers.2", "vit.layers.0"]).places
    assert found.chosen == ("vit.layers.0", "vit.layers.2")
    assert found.start == 0


@pytest.mark.parametrize(
    ("model", "query", "value", "inner"),
    [
        ("vit", "attention.q_proj", "attention.v_proj", "mlp.fc2"),
        ("deit", "attention.q_proj", "attention.v_proj", "mlp.fc2"),
        ("bert", "attention.self.query", "attention.self.value", "output.dense"),
        ("roberta", "attention.self.query", "attention.self.value", "output.dense"),
        ("distilbert", "attention.q_lin", "attention.v_lin", "ffn.lin2"),
    ],
)
def test_defaults_of_each_class(tiny: Tiny, model: str, query: str, value: str, inner: str) -> None:
    (layer,) = tiny.stack(model, layers=1).places.chosen
    assert tiny.stack(model, layers=1).places.linears == (f"{layer}.{query}", f"{layer}.{value}")
    sites = tiny.stack(model, "ia3", layers=1).places.linears
    assert sites[-2:] == (f"{layer}.{value}", f"{layer}.{inner}")


def linears(tiny: Tiny, targets: list[str]) -> list[str]:
    found = find_places(bert(tiny), 1, targets, (QUERY, VALUE)).linears
    return [name.removeprefix("bert.encoder.layer.2.") for name in found]


def bert(tiny: Tiny) -> PreTrainedModel:
    return tiny.untouched("bert").model


def test_targets_are_whole_parts_of_a_name(tiny: Tiny) -> None:
    assert linears(tiny, ["query"]) == ["attention.self.query"]
    assert linears(tiny, ["dense"]) == ["attention.output.dense", "intermediate.dense", "output.dense"]
    assert linears(tiny, ["output.dense"]) == ["output.dense"]
    assert linears(tiny, ["output.dense", "query", "query"]) == ["attention.self.query", "output.dense"]


@pytest.mark.parametrize("target", ["uery", "self.query", "quer", "", "attention", "layer.2.output.dense"])
def test_a_part_of_a_part_is_nothing(tiny: Tiny, target: str) -> None:
    with pytest.raises(
        InputError, match=r"is no linear layer of bert.encoder.layer.2; it has attention.self.query,"
    ):
        linears(tiny, [target])


@pytest.mark.parametrize("name", ["vit.layers.3", "layers.1", "1", "vit.layers", "vit.layers.01"])
def test_unknown_layers_are_named_with_what_there_is(tiny: Tiny, name: str) -> None:
    says = f"no layer is named '{name}'; the model has vit.layers.0 to vit.layers.2"
    with pytest.raises(InputError, match=says):
        tiny.stack("vit", layers=[name])


def test_too_many_or_no_layers(tiny: Tiny) -> None:
    with pytest.raises(InputError, match="4 is more than the model's 3 layers"):
        tiny.stack("vit", layers=4)
    with pytest.raises(InputError, match=r"an empty list; name some of vit.layers.0 to"):
        tiny.stack("vit", layers=[])


def test_an_unknown_architecture_gets_no_guess(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"no defaults for this model; choose some of attention.self.query,"):
        find_places(bert(tiny), 1, None, (("attention.to_q",), VALUE, KEY))
    monkeypatch.setattr(bert(tiny).config, "num_hidden_layers", 7)
    with pytest.raises(InputError, match="no list of 7 layers in a BertForSequenceClassification"):
        find_places(bert(tiny), 1, None, (QUERY, VALUE))
