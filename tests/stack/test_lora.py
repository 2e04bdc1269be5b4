"""LoRA: products are added to the weights once, in order, and a frozen A stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from plain_models import forward, with_head
from torch import nn

from fedsgt.files.tensors import Tensors
from fedsgt.stack.lora import Lora, LoraLinear
from fedsgt.stack.stack import Stack

if TYPE_CHECKING:
    from tests.stack.conftest import Tiny


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


def unfolded_lora(plain: Any, stack: Stack, modules: list[Tensors]) -> None:
    for name in stack.places.linears:
        weight = plain.get_submodule(name).weight
        for module in modules:
            product = module[f"{name}.lora_B"] @ module[f"{name}.lora_A"]
            weight.data += torch.from_numpy(stack.settings.alpha / stack.settings.rank * product)


def test_folded_modules_are_the_plain_sum(tiny: Tiny, model: str) -> None:
    stack, batch = tiny.stack(model, "lora", layers=2), tiny.batch(model)
    modules = tiny.modules(stack, 3)
    plain = with_head(tiny, model, modules[-1])
    bare = forward(plain, batch)
    unfolded_lora(plain, stack, modules)
    expected = forward(plain, batch)
    assert torch.allclose(tiny.logits(stack, modules, batch), expected, atol=1e-5)
    assert not torch.allclose(bare, expected, atol=1e-3)


def test_a_pair_in_training_computes_what_its_dense_weight_does() -> None:
    """The last layer reads the dense weight, all others the forward pass: both must agree."""
    torch.manual_seed(0)
    adapted = LoraLinear(nn.Linear(6, 4), scale=1.5)
    pairs = [(torch.randn(2, 6).double(), torch.randn(4, 2).double()) for _ in range(2)]
    adapted.fold(pairs)
    adapted.down, adapted.up = (nn.Parameter(torch.randn(shape)) for shape in ((2, 6), (4, 2)))
    weight, bias = adapted.dense()
    inputs = torch.randn(3, 6)
    assert torch.allclose(adapted(inputs), nn.functional.linear(inputs, weight, bias), atol=1e-5)
    assert adapted.folded is not None
    expected = adapted.base.weight.double() + 1.5 * sum(up @ down for down, up in pairs)
    assert torch.equal(adapted.folded, expected.float()), "rounded once, after the sum"
    adapted.fold([])
    assert adapted.folded is None


def test_a_fresh_pair_is_drawn_from_the_generator_alone(tiny: Tiny) -> None:
    kind = tiny.stack("bert").kind
    assert isinstance(kind, Lora)
    one, two, other = (kind.initial(np.random.default_rng(seed)) for seed in (3, 3, 4))
    for name, array in one.items():
        assert array.dtype == np.float32
        assert array.tobytes() == two[name].tobytes()
        if name.endswith("lora_A"):
            assert np.abs(array).max() <= array.shape[1] ** -0.5
            assert array.tobytes() != other[name].tobytes()
        else:
            assert not array.any(), "a fresh module must change nothing"
