"""What a kind of PEFT module must do; the stack does the rest alike for all kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedsgt.files.tensors import Tensors


class Kind(Protocol):
    """Modules of one kind at their places in one model.

    A *state* is what a phase trains and clients send; a *module* is what is kept of it. They differ only for
    prefix tuning, which trains a projection and keeps its output.
    """

    def initial(self, rng: np.random.Generator) -> Tensors:
        """A fresh state."""

    def finish(self, state: Mapping[str, NDArray[np.float32]]) -> Tensors:
        """The module of a trained state."""

    def freeze(self, modules: Sequence[Tensors]) -> None:
        """Put exactly these finished modules under the backbone's forward pass, in this order."""

    def open(self, state: Mapping[str, NDArray[np.float32]]) -> dict[str, nn.Parameter]:
        """Put a state on top, and give its parameters by name; the trainable ones require gradients."""

    def refresh(self) -> None:
        """Called before each forward pass with an open state."""

    def close(self) -> None:
        """Take the state off again."""


class Site(Protocol):
    """A linear with modules on it."""

    def dense(self) -> tuple[Tensor, Tensor | None]:
        """One weight and one bias that do the same, through which gradients flow."""


def dense(module: nn.Module) -> tuple[Tensor, Tensor | None]:
    """Of any linear, with modules or without."""
    if isinstance(module, nn.Linear):
        return module.weight, module.bias
    return cast(Site, module).dense()


def parameter(array: NDArray[np.float32], device: torch.device, trainable: bool = True) -> nn.Parameter:
    """A parameter of its own memory: training must not write into what it started from."""
    return nn.Parameter(torch.from_numpy(np.array(array, np.float32)).to(device), requires_grad=trainable)


def double(array: NDArray[np.float32], device: torch.device) -> torch.Tensor:
    """Folding is done in float64, so that its rounding is that of one sum."""
    return torch.from_numpy(np.array(array, np.float64)).to(device)


def uniform(rng: np.random.Generator, shape: tuple[int, ...], bound: float) -> NDArray[np.float32]:
    """Evenly from -bound to bound."""
    return ((rng.random(shape, dtype=np.float32) * 2 - 1) * np.float32(bound)).astype(np.float32)


def swap(model: nn.Module, name: str, module: nn.Module) -> None:
    """Put a module in the place of the one of exactly this name."""
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, module)


def linear(model: nn.Module, name: str) -> nn.Linear:
    found = model.get_submodule(name)
    assert isinstance(found, nn.Linear)
    return found
