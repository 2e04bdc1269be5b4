"""IA3: each module scales keys, values and the feed-forward's inner activations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from fedsgt.config.model import Peft
from fedsgt.files.tensors import Tensors
from fedsgt.stack.kinds import double, linear, parameter, swap
from fedsgt.stack.places import FEEDFORWARD_OUT, Places


class Ia3Linear(nn.Module):
    """A frozen linear whose output (or input, in the feed-forward) is scaled by the modules' vectors."""

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
        """Always from the original weight, in order, rounded once."""
        if not vectors:
            self.folded = None
            return
        product = vectors[0]
        for vector in vectors[1:]:
            product = product * vector
        weight, bias = self.base.weight.detach().double(), self.base.bias
        if self.scales_input:
            self.folded = (weight * product).float(), bias
        else:
            scaled = None if bias is None else (bias.detach().double() * product).float()
            self.folded = (weight * product[:, None]).float(), scaled


class Ia3:
    """IA3 at the given places."""

    def __init__(self, model: nn.Module, places: Places, settings: Peft) -> None:
        inside = {f"{layer}.{name}" for layer in places.chosen for name in FEEDFORWARD_OUT}
        self.sites: dict[str, Ia3Linear] = {}
        for name in places.linears:
            self.sites[name] = Ia3Linear(linear(model, name), name in inside)
            swap(model, name, self.sites[name])

    def initial(self, rng: np.random.Generator) -> Tensors:
        """Ones: a fresh module changes nothing."""
        return {f"{name}.ia3": np.ones(site.width, np.float32) for name, site in self.sites.items()}

    def finish(self, state: Mapping[str, NDArray[np.float32]]) -> Tensors:
        return dict(state)

    def freeze(self, modules: Sequence[Tensors]) -> None:
        for name, site in self.sites.items():
            site.fold([double(module[f"{name}.ia3"], site.base.weight.device) for module in modules])

    def open(self, state: Mapping[str, NDArray[np.float32]]) -> dict[str, nn.Parameter]:
        opened: dict[str, nn.Parameter] = {}
        for name, site in self.sites.items():
            site.vector = parameter(state[f"{name}.ia3"], site.base.weight.device)
            opened[f"{name}.ia3"] = site.vector
        return opened

    def refresh(self) -> None:
        """Nothing: the open parameters are used as they are."""

    def close(self) -> None:
        for site in self.sites.values():
            site.vector = None
