"""Results of a stack, compared with plain references."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import DeiTForImageClassificationWithTeacher

from fedsgt.config.sections import Peft
from fedsgt.files.tensors import Tensors
from fedsgt.stack import last_layer
from fedsgt.stack.backbone import Backbone, load_backbone
from fedsgt.stack.inputs import hidden_batch
from fedsgt.stack.prefix import Prefix
from fedsgt.stack.stack import HEAD, Stack

if TYPE_CHECKING:
    from tests.stack.conftest import Tiny

FRESH_IS_NEUTRAL = pytest.mark.parametrize("kind", ["lora", "ia3"])


def with_head(tiny: Tiny, model: str, module: Tensors) -> Any:
    """Return the plain class of transformers with this module's head and nothing else of it."""
    plain: Any = deepcopy(tiny.untouched(model).model)
    heads = {
        name.removeprefix(HEAD): torch.from_numpy(array) for name, array in module.items() if HEAD in name
    }
    plain.load_state_dict(heads, strict=False)
    return plain


def forward(plain: Any, batch: dict[str, Any]) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = plain(**batch).logits
    return found


@FRESH_IS_NEUTRAL
def test_a_fresh_module_changes_nothing(tiny: Tiny, model: str, kind: str) -> None:
    """Compare with the class's own forward pass, in training and loaded."""
    stack, batch = tiny.stack(model, kind), tiny.batch(model)
    state = stack.begin(0, tiny.modules(stack, 1)[0])
    expected = forward(with_head(tiny, model, state), batch)
    stack.load([])
    stack.open(state)
    with torch.no_grad():
        opened = stack.logits(batch)
    assert torch.allclose(opened, expected, atol=1e-5)
    assert torch.equal(tiny.logits(stack, [stack.finish(state)] * 3, batch), opened)


def test_a_class_whose_head_reads_a_second_token_keeps_it(tiny: Tiny, tmp_path: Path) -> None:
    """DeiT with a teacher looks at its distillation token too; only the first is computed for the others."""
    config: Any = tiny.untouched("deit").model.config
    DeiTForImageClassificationWithTeacher(config).save_pretrained(tmp_path)
    backbone, batch = load_backbone(str(tmp_path), "image", 5), tiny.batch("deit")
    plain = deepcopy(backbone.model)
    stack = Stack(backbone, Peft(rank=2))
    state = stack.begin(0, tiny.modules(stack, 1)[0])
    heads = {name: torch.from_numpy(state[HEAD + name]) for name in stack.head}
    plain.load_state_dict(heads, strict=False)
    assert len(heads) == 4
    assert torch.allclose(tiny.logits(stack, [state], batch), forward(plain, batch), atol=1e-5)


def unfolded_lora(plain: Any, stack: Stack, modules: list[Tensors]) -> None:
    for name in stack.places.linears:
        weight = plain.get_submodule(name).weight
        for module in modules:
            product = module[f"{name}.lora_B"] @ module[f"{name}.lora_A"]
            weight.data += torch.from_numpy(stack.settings.alpha / stack.settings.rank * product)


class Scaled(nn.Module):
    """A linear layer with its input or output scaled by several vectors in turn."""

    def __init__(self, base: nn.Module, vectors: list[torch.Tensor], before: bool) -> None:
        super().__init__()
        self.base, self.vectors, self.before = base, vectors, before

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for vector in self.vectors if self.before else []:
            inputs = inputs * vector
        outputs: torch.Tensor = self.base(inputs)
        for vector in [] if self.before else self.vectors:
            outputs = outputs * vector
        return outputs


def unfolded_ia3(plain: Any, stack: Stack, modules: list[Tensors]) -> None:
    for name in stack.places.linears:
        vectors = [torch.from_numpy(module[f"{name}.ia3"]) for module in modules]
        before = name.endswith(("mlp.fc2", "output.dense", "ffn.lin2"))
        plain.set_submodule(name, Scaled(plain.get_submodule(name), vectors, before))


@pytest.mark.parametrize(("kind", "unfolded"), [("lora", unfolded_lora), ("ia3", unfolded_ia3)])
def test_folded_modules_are_the_plain_sum_or_product(
    tiny: Tiny, model: str, kind: str, unfolded: Any
) -> None:
    stack, batch = tiny.stack(model, kind, layers=2), tiny.batch(model)
    modules = tiny.modules(stack, 3)
    plain = with_head(tiny, model, modules[-1])
    bare = forward(plain, batch)
    unfolded(plain, stack, modules)
    expected = forward(plain, batch)
    assert torch.allclose(tiny.logits(stack, modules, batch), expected, atol=1e-5)
    assert not torch.allclose(bare, expected, atol=1e-3)


def test_prefixes_join_in_order(tiny: Tiny, model: str) -> None:
    """Keys and values are the modules' own, root first, with the one in training at the end."""
    stack, batch = tiny.stack(model, "prefix", layers=2), tiny.batch(model)
    modules = tiny.modules(stack, 2)
    assert isinstance(stack.kind, Prefix)
    assert len(stack.kind.slots) == 2
    stack.load(modules)
    state = stack.begin(5, modules[-1])
    stack.open(state)
    stack.logits(batch)
    finished = stack.finish(state)
    key = torch.zeros(1, 4, 1, 8)
    for name, slot in stack.kind.slots.items():
        for part, joined in zip(("prefix_key", "prefix_value"), slot.prepend(key, key), strict=True):
            parts = [module[f"{name}.{part}"] for module in (*modules, finished)]
            expected = torch.from_numpy(np.concatenate(parts, axis=1))
            assert torch.equal(joined[0, :, :6], expected[:, :6])
            assert torch.allclose(joined[0, :, 6:9], expected[:, 6:], atol=1e-5)
            assert not joined[0, :, 9:].any()


def test_prefixes_are_seen_by_every_token(tiny: Tiny, model: str) -> None:
    """Compare with attention written out: softmax over the virtual tokens and the record's own."""
    stack, batch = tiny.stack(model, "prefix"), tiny.batch(model)
    modules = tiny.modules(stack, 2)
    seen: dict[str, Any] = {}
    with_prefix = tiny.logits(stack, modules, batch)
    assert isinstance(stack.kind, Prefix)
    name, slot = next(iter(stack.kind.slots.items()))
    attention = stack.backbone.model.get_submodule(name)
    projections = [getattr(attention, part) for part in own_projections(attention)]
    hook = projections[0].register_forward_hook(lambda _, inputs, __: seen.update(inputs=inputs[0]))
    context = attention.register_forward_hook(lambda _, __, outputs: seen.update(outputs=outputs))
    assert torch.equal(tiny.logits(stack, modules, batch), with_prefix)
    hook.remove()
    context.remove()
    query, key, value = (split(projection(seen["inputs"])) for projection in projections)
    key, value = slot.prepend(key, value)
    scores = query @ key.transpose(2, 3) / 8**0.5
    if "attention_mask" in batch:
        mask = nn.functional.pad(batch["attention_mask"], (6, 0), value=1)
        scores = scores.masked_fill(mask[:, None, None, :] == 0, -torch.inf)
    mixed = (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)
    last = getattr(attention, "o_proj", None) or getattr(attention, "out_lin", None) or nn.Identity()
    found = seen["outputs"][0] if isinstance(seen["outputs"], tuple) else seen["outputs"]
    assert torch.allclose(found, last(mixed), atol=1e-5)


def own_projections(attention: nn.Module) -> list[str]:
    known = (("q_proj", "k_proj", "v_proj"), ("query", "key", "value"), ("q_lin", "k_lin", "v_lin"))
    return next(list(names) for names in known if hasattr(attention, names[0]))


def split(flat: torch.Tensor) -> torch.Tensor:
    return flat.view(*flat.shape[:2], 4, 8).transpose(1, 2)


@pytest.mark.parametrize("layers", [1, 2])
def test_lower_layers_and_the_rest_are_the_whole(tiny: Tiny, model: str, kind: str, layers: int) -> None:
    stack, batch = tiny.stack(model, kind, layers=layers), tiny.batch(model)
    assert stack.start == 3 - layers
    hidden = stack.lower(batch)
    text = "attention_mask" in batch
    lengths = batch["attention_mask"].sum(1).tolist() if text else [hidden.shape[1]] * len(hidden)
    kept = [{"hidden": row[:length].numpy()} for row, length in zip(hidden, lengths, strict=True)]
    modules = tiny.modules(stack, 2)
    whole = tiny.logits(stack, modules, batch)
    resumed = tiny.logits(stack, modules, hidden_batch(kept, text))
    assert torch.allclose(whole, resumed, atol=1e-5)
    assert torch.equal(stack.lower(batch), hidden), "modules reach below the layers that hold them"
    assert torch.equal(tiny.logits(stack, modules, batch), whole), "a resumed pass leaves something behind"


def test_training_from_lower_layers_is_training(tiny: Tiny, kind: str) -> None:
    stack, batch = tiny.stack("vit", kind, layers=1), tiny.batch("vit")
    cached = {"hidden": stack.lower(batch)}
    whole, resumed = tiny.train(stack, [], batch), tiny.train(stack, [], cached)
    for name, array in whole.items():
        assert np.allclose(array, resumed[name], atol=1e-5)


def test_the_short_last_layer_learns_what_the_whole_one_learns(
    tiny: Tiny, model: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compare gradients with the plain layer's, for modules at queries, keys and values."""
    attention = next(m for m in tiny.untouched(model).model.modules() if hasattr(m, "config") and is_query(m))
    targets = own_projections(attention)
    short = tiny.stack(model, kind, targets=targets)
    monkeypatch.setattr(last_layer, "FIRST_TOKEN", {})
    whole, batch = tiny.stack(model, kind, targets=targets), tiny.batch(model)
    assert [last_tokens(stack, batch) for stack in (short, whole)] == [1, last_tokens(whole, batch)]
    assert last_tokens(whole, batch) > 1
    parents = tiny.modules(short, 2)
    began = short.finish(short.begin(0, parents[-1]))
    ours, plain = (tiny.train(stack, parents, batch) for stack in (short, whole))
    for name, array in plain.items():
        moved = np.abs(array - began[name]).max()
        assert moved > 1e-5, f"{name} learnt nothing: the test shows nothing"
        assert np.abs(array - ours[name]).max() < moved / 20, name


def last_tokens(stack: Stack, batch: dict[str, Any]) -> int:
    """Return the number of tokens that the last layer outputs."""
    found: list[int] = []

    def note(layer: nn.Module, given: Any, out: Any) -> None:
        found.append((out[0] if isinstance(out, tuple) else out).shape[1])

    hook = stack.backbone.model.get_submodule(stack.places.layers[-1]).register_forward_hook(note)
    with torch.no_grad():
        stack.logits(batch)
    hook.remove()
    return found[0]


def test_the_short_last_layer_of_a_model_without_biases(tiny: Tiny, tmp_path: Path) -> None:
    plain = deepcopy(tiny.untouched("vit").model)
    for layer in plain.modules():
        for name in ("q_proj", "k_proj", "v_proj"):
            if hasattr(layer, name):
                getattr(layer, name).bias = None
    batch = tiny.batch("vit")
    stack = Stack(Backbone(deepcopy(plain), tiny.untouched("vit").head), Peft(rank=2))
    state = stack.begin(0, tiny.modules(tiny.stack("vit"), 1)[0])
    heads = {name.removeprefix(HEAD): torch.from_numpy(state[name]) for name in state if HEAD in name}
    plain.load_state_dict(heads, strict=False)
    assert torch.allclose(tiny.logits(stack, [stack.finish(state)], batch), forward(plain, batch), atol=1e-5)


def test_masks_that_are_added_and_masks_that_are_flags_are_one(tiny: Tiny) -> None:
    layer: Any = deepcopy(tiny.untouched("bert").model).get_submodule("bert.encoder.layer.2")
    tokens, seen = torch.randn(2, 5, 32), torch.tensor([[True] * 5, [True] * 3 + [False] * 2])[:, None, None]
    added = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
    short = last_layer.FIRST_TOKEN["BertForSequenceClassification"]
    flags, sums, none = (short(layer, tokens, mask) for mask in (seen, added, None))
    assert torch.equal(flags, sums)
    assert torch.equal(flags[0], none[0])
    assert not torch.allclose(flags[1], none[1])


def is_query(module: nn.Module) -> bool:
    return any(hasattr(module, name) for name in ("q_proj", "query", "q_lin"))


def test_folding_again_gives_the_same_bits(tiny: Tiny, kind: str) -> None:
    stack, batch = tiny.stack("bert", kind), tiny.batch("bert")
    modules, others = tiny.modules(stack, 3), tiny.modules(stack, 4)
    first = tiny.logits(stack, modules, batch)
    for between in (modules, others, [], modules[:1]):
        tiny.logits(stack, between, batch)
        assert torch.equal(tiny.logits(stack, modules, batch), first)
    assert torch.equal(tiny.logits(tiny.stack("bert", kind), modules, batch), first)
    stack.backbone.check()


def test_a_frozen_a_gets_no_gradient(tiny: Tiny) -> None:
    stack, batch = tiny.stack("vit", freeze_a=True), tiny.batch("vit")
    opened = stack.open(stack.begin(0, stack.initial_head(0)))
    torch.autograd.backward(stack.logits(batch).sum())
    for name, value in opened.items():
        assert value.requires_grad == (not name.endswith("lora_A"))
        assert (value.grad is not None) == value.requires_grad
    state = stack.begin(0, stack.initial_head(0))
    module = tiny.train(stack, [], batch)
    for name in stack.places.linears:
        assert module[f"{name}.lora_A"].tobytes() == state[f"{name}.lora_A"].tobytes()
        assert module[f"{name}.lora_B"].any()


def test_dropout_does_not_act(tiny: Tiny, model: str, kind: str) -> None:
    config = tiny.untouched(model).model.config.to_dict()
    rates = [value for key, value in config.items() if "dropout" in key and isinstance(value, float)]
    stack, batch = tiny.stack(model, kind), tiny.batch(model)
    stack.open(stack.begin(0, stack.initial_head(0)))
    torch.manual_seed(1)
    one = stack.logits(batch)
    torch.manual_seed(2)
    two = stack.logits(batch)
    assert torch.equal(one, two)
    assert any(rates) or model == "deit", "the configuration has no dropout: the test shows nothing"


def test_the_first_head_follows_the_seed_alone(tiny: Tiny, model: str) -> None:
    stack = tiny.stack(model)
    torch.manual_seed(1)
    one = stack.initial_head(3)
    torch.manual_seed(2)
    two = tiny.stack(model).initial_head(3)
    assert {name: array.tobytes() for name, array in one.items()} == {
        name: array.tobytes() for name, array in two.items()
    }
    other = stack.initial_head(4)
    for name, array in one.items():
        assert (array.tobytes() != other[name].tobytes()) == name.endswith(".weight"), "biases start at zero"
