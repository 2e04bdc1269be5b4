"""IA3: each module scales keys, values and the inner activations of the feed-forward block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from fedsgt.config.sections import Peft
from fedsgt.files.tensors import Tensors
from fedsgt.stack.kinds import double, linear, parameter, swap
from fedsgt.stack.places import FEEDFORWARD_OUT, Places


class Ia3Linear(nn.Module):
    """A frozen linear layer whose output (or input, in the feed-forward block) is scaled by the modules."""

    def __init__(self, base: nn.Linear, scales_input: bool) -> None:
        super().__init__()
        self.base = base
        self.scales_input = scales_input
        self.folded: tuple[Tensor, Tensor | None] | None = None
        self.vector: nn.Parameter | None = None

    @property
    def width(self) -> int:
        return self.base.in_features if self.scales_input else self.base.out_features

    def forward(self, inputs: Tensor) -> Tensor:
        weight, bias = self.folded or (self.base.weight, self.base.bias)
        if self.vector is None:
            return functional.linear(inputs, weight, bias)
        if self.scales_input:
            return functional.linear(inputs * self.vector, weight, bias)
        return functional.linear(inputs, weight, bias) * self.vector

    def dense(self) -> tuple[Tensor, Tensor | None]:
        weight, bias = self.folded or (self.base.weight, self.base.bias)
        if self.vector is None:
            return weight, bias
        if self.scales_input:
            return weight * self.vector, bias
        return weight * self.vector[:, None], None if bias is None else bias * self.vector

    def fold(self, vectors: Sequence[Tensor]) -> None:
        """Fold these vectors into copies of weight and bias; without a vector, drop the copies."""
        if not vectors:
            self.folded = None
            return
        # Always from the original weight, in order and rounded once, as for LoRA.
        product = vectors[0]
        for vector in vectors[1:]:
            product = product * vector
        weight, bias = self.base.weight.detach().double(), self.base.bias
        if self.scales_input:
            self.folded = (weight * product).float(), bias
        else:
            # Scaling an output scales the bias with it.
            scaled = None if bias is None else (bias.detach().double() * product).float()
            self.folded = (weight * product[:, None]).float(), scaled


class Ia3:
    """IA3 modules at the given places."""

    def __init__(self, model: nn.Module, places: Places, settings: Peft) -> None:
        # Scaling the inner activations of the feed-forward block is scaling the input of its second layer.
        inside = {f"{layer}.{name}" for layer in places.chosen for name in FEEDFORWARD_OUT}
        self.linears: dict[str, Ia3Linear] = {}
        for name in places.linears:
            self.linears[name] = Ia3Linear(linear(model, name), name in inside)
            swap(model, name, self.linears[name])

    def initial(self, rng: np.random.Generator) -> Tensors:
        """Return vectors of ones, so that a fresh module changes nothing."""
        return {f"{name}.ia3": np.ones(adapted.width, np.float32) for name, adapted in self.linears.items()}

    def finish(self, state: Mapping[str, NDArray[np.float32]]) -> Tensors:
        return dict(state)

    def freeze(self, modules: Sequence[Tensors]) -> None:
        for name, adapted in self.linears.items():
            adapted.fold([double(module[f"{name}.ia3"], adapted.base.weight.device) for module in modules])

    def open(self, state: Mapping[str, NDArray[np.float32]]) -> dict[str, nn.Parameter]:
        opened: dict[str, nn.Parameter] = {}
        for name, adapted in self.linears.items():
            adapted.vector = parameter(state[f"{name}.ia3"], adapted.base.weight.device)
            opened[f"{name}.ia3"] = adapted.vector
        return opened

    def refresh(self) -> None:
        """Do nothing: the forward pass reads the open parameters themselves."""

    def close(self) -> None:
        for adapted in self.linears.values():
            adapted.vector = None
