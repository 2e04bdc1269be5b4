"""LoRA: each module adds the product of two thin matrices to the weights of some linear layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from fedsgt.config.sections import Peft
from fedsgt.files.tensors import Tensors
from fedsgt.stack.kinds import double, linear, parameter, swap, uniform
from fedsgt.stack.places import Places


class LoraLinear(nn.Module):
    """A frozen linear layer, a copy of its weight with frozen modules folded in, and one pair in training."""

    def __init__(self, base: nn.Linear, scale: float) -> None:
        super().__init__()
        self.base = base
        self.scale = scale
        self.folded: Tensor | None = None
        self.down: nn.Parameter | None = None
        self.up: nn.Parameter | None = None

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = functional.linear(inputs, self._frozen, self.base.bias)
        if self.down is None or self.up is None:
            return outputs
        # The scale is applied between A and B, where there are the fewest numbers: the rank for each token.
        return outputs + functional.linear(functional.linear(inputs, self.down) * self.scale, self.up)

    def dense(self) -> tuple[Tensor, Tensor | None]:
        if self.down is None or self.up is None:
            return self._frozen, self.base.bias
        return self._frozen + self.up @ (self.down * self.scale), self.base.bias

    @property
    def _frozen(self) -> Tensor:
        return self.base.weight if self.folded is None else self.folded

    def fold(self, pairs: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Fold these pairs (A, B) into a copy of the weight; without a pair, drop the copy."""
        if not pairs:
            self.folded = None
            return
        # One canonical form, always from the original weight, in order and rounded once: the bytes must not
        # depend on what was folded before.
        weight = self.base.weight.detach().double()
        for down, up in pairs:
            weight = weight + self.scale * (up @ down)
        self.folded = weight.float()


class Lora:
    """LoRA modules at the given places, scaled by alpha / rank."""

    def __init__(self, model: nn.Module, places: Places, settings: Peft) -> None:
        self.rank, self.freeze_a = settings.rank, settings.freeze_a
        self.scale = settings.alpha / settings.rank
        self.linears: dict[str, LoraLinear] = {}
        for name in places.linears:
            self.linears[name] = LoraLinear(linear(model, name), self.scale)
            swap(model, name, self.linears[name])

    def initial(self, rng: np.random.Generator) -> Tensors:
        """Draw A as PEFT does and set B to zero, so that a fresh module changes nothing."""
        state: Tensors = {}
        for name, adapted in self.linears.items():
            wide, tall = adapted.base.in_features, adapted.base.out_features
            state[f"{name}.lora_A"] = uniform(rng, (self.rank, wide), wide**-0.5)
            state[f"{name}.lora_B"] = np.zeros((tall, self.rank), np.float32)
        return state

    def finish(self, state: Mapping[str, NDArray[np.float32]]) -> Tensors:
        return dict(state)

    def freeze(self, modules: Sequence[Tensors]) -> None:
        for name, adapted in self.linears.items():
            device = adapted.base.weight.device
            adapted.fold(
                [
                    (double(module[f"{name}.lora_A"], device), double(module[f"{name}.lora_B"], device))
                    for module in modules
                ]
            )

    def open(self, state: Mapping[str, NDArray[np.float32]]) -> dict[str, nn.Parameter]:
        opened: dict[str, nn.Parameter] = {}
        for name, adapted in self.linears.items():
            device: torch.device = adapted.base.weight.device
            # With frozen A, the average of the clients' products is the product of the averages.
            adapted.down = parameter(state[f"{name}.lora_A"], device, trainable=not self.freeze_a)
            adapted.up = parameter(state[f"{name}.lora_B"], device)
            opened |= {f"{name}.lora_A": adapted.down, f"{name}.lora_B": adapted.up}
        return opened

    def refresh(self) -> None:
        """Do nothing: the forward pass reads the open parameters themselves."""

    def close(self) -> None:
        for adapted in self.linears.values():
            adapted.down = adapted.up = None
