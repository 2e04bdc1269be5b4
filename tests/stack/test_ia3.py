"""IA3: vectors scale outputs, or inputs in the feed-forward block, once and in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from plain_models import forward, with_head
from torch import nn

from fedsgt.files.tensors import Tensors
from fedsgt.stack.ia3 import Ia3, Ia3Linear
from fedsgt.stack.stack import Stack

if TYPE_CHECKING:
    from tests.stack.conftest import Tiny


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


def test_folded_modules_are_the_plain_product(tiny: Tiny, model: str) -> None:
    stack, batch = tiny.stack(model, "ia3", layers=2), tiny.batch(model)
    modules = tiny.modules(stack, 3)
    plain = with_head(tiny, model, modules[-1])
    bare = forward(plain, batch)
    unfolded_ia3(plain, stack, modules)
    expected = forward(plain, batch)
    assert torch.allclose(tiny.logits(stack, modules, batch), expected, atol=1e-5)
    assert not torch.allclose(bare, expected, atol=1e-3)


@pytest.mark.parametrize("scales_input", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
def test_a_vector_in_training_computes_what_its_dense_weight_does(scales_input: bool, has_bias: bool) -> None:
    """The last layer reads the dense weight, all others the forward pass: both must agree."""
    torch.manual_seed(0)
    adapted = Ia3Linear(nn.Linear(6, 4, bias=has_bias), scales_input)
    first, second = (torch.randn(adapted.width).double() for _ in range(2))
    adapted.fold([first, second])
    adapted.vector = nn.Parameter(torch.randn(adapted.width))
    weight, bias = adapted.dense()
    inputs = torch.randn(3, 6)
    assert torch.allclose(adapted(inputs), nn.functional.linear(inputs, weight, bias), atol=1e-5)
    whole = first * second * adapted.vector.detach()
    expected = adapted.base(inputs * whole.float()) if scales_input else adapted.base(inputs) * whole.float()
    assert torch.allclose(adapted(inputs), expected, atol=1e-5)
    assert (bias is not None) == has_bias


def test_a_fresh_module_is_ones_of_the_scaled_width(tiny: Tiny) -> None:
    """The second layer of the feed-forward block is scaled at its input, which is wider than its output."""
    kind = tiny.stack("bert", "ia3").kind
    assert isinstance(kind, Ia3)
    state = kind.initial(np.random.default_rng(0))
    widths = {name.removesuffix(".ia3"): len(array) for name, array in state.items()}
    assert {width for name, width in widths.items() if name.endswith("output.dense")} == {48}
    assert {width for name, width in widths.items() if "attention" in name} == {32}
    assert all((array == 1).all() and array.dtype == np.float32 for array in state.values())
