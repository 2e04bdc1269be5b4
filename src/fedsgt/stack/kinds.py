"""The interface of a kind of PEFT module (LoRA, IA3, prefix tuning), and functions that the kinds share."""

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

    A *state* is what a phase trains and clients send; a *module* is what is stored of it. They differ only
    for prefix tuning, which trains a projection and stores the projection's output.
    """

    def initial(self, rng: np.random.Generator) -> Tensors:
        """Return a fresh state, drawn from `rng` alone."""

    def finish(self, state: Mapping[str, NDArray[np.float32]]) -> Tensors:
        """Return the module of a trained state."""

    def freeze(self, modules: Sequence[Tensors]) -> None:
        """Apply exactly these modules in the forward pass, in this order; earlier ones are taken off."""

    def open(self, state: Mapping[str, NDArray[np.float32]]) -> dict[str, nn.Parameter]:
        """Apply a state on top and return its parameters by name; the trainable ones require gradients."""

    def refresh(self) -> None:
        """Bring the forward pass up to date with the open state; called before each pass in training."""

    def close(self) -> None:
        """Take the open state off again."""


class AdaptedLinear(Protocol):
    """A linear layer with modules on it."""

    def dense(self) -> tuple[Tensor, Tensor | None]:
        """Return one weight and one bias that compute the same, and through which gradients flow."""


def dense(module: nn.Module) -> tuple[Tensor, Tensor | None]:
    """Return weight and bias of a linear layer, with modules on it or without."""
    if isinstance(module, nn.Linear):
        return module.weight, module.bias
    return cast(AdaptedLinear, module).dense()


def parameter(array: NDArray[np.float32], device: torch.device, trainable: bool = True) -> nn.Parameter:
    """Return a parameter with this value."""
    # A copy: training writes into the parameter, and must not write into what it started from.
    return nn.Parameter(torch.from_numpy(np.array(array, np.float32)).to(device), requires_grad=trainable)


def double(array: NDArray[np.float32], device: torch.device) -> torch.Tensor:
    """Return the array as a float64 tensor, in which modules are folded."""
    # Sums and products of many modules are rounded to float32 once, at the end.
    return torch.from_numpy(np.array(array, np.float64)).to(device)


def uniform(rng: np.random.Generator, shape: tuple[int, ...], bound: float) -> NDArray[np.float32]:
    """Draw evenly from -bound to bound."""
    # By NumPy, not torch: its generators give the same numbers on every machine.
    return ((rng.random(shape, dtype=np.float32) * 2 - 1) * np.float32(bound)).astype(np.float32)


def swap(model: nn.Module, name: str, module: nn.Module) -> None:
    """Replace the submodule of exactly this name."""
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, module)


def linear(model: nn.Module, name: str) -> nn.Linear:
    found = model.get_submodule(name)
    assert isinstance(found, nn.Linear)
    return found
