"""Several sequences averaged into one model: one forward pass in place of one a sequence.

What is averaged is the weights that the modules make of the backbone's, so for LoRA and IA3 the average is
made of modules again. It is not the average of the sequences' probabilities, and less accurate than that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsgt.errors import InputError
from fedsgt.stack.stack import HEAD

Mixture: TypeAlias = tuple[tuple[float, tuple[str, ...]], ...]
"""Weight and chain of modules, by key and root first, of each sequence; the weights sum to 1."""
Read: TypeAlias = Callable[[str], Mapping[str, NDArray[np.float32]]]
# In float64: the stack rounds once, when it folds them into its weights.
Doubles: TypeAlias = dict[str, NDArray[Any]]


def merge(kind: str, mixture: Mixture, read: Read) -> list[Doubles]:
    """The modules to load for the weighted average of these sequences; heads are averaged likewise."""
    check_mergeable(kind)
    modules = (_merged_lora if kind == "lora" else _merged_ia3)(mixture, read)
    heads = [(weight, _part(read(chain[-1]), head=True)) for weight, chain in mixture]
    modules[-1] |= _average(heads)
    return modules


def check_mergeable(kind: str) -> None:
    if kind == "prefix":
        raise InputError(
            "strategy: merged is not for peft.kind = prefix: virtual tokens of different sequences have no "
            "average; use all, min or long"
        )


def _merged_lora(mixture: Mixture, read: Read) -> list[Doubles]:
    """A sum of products is linear in each: every module once, its B times the weights it stands under."""
    shares: dict[str, float] = {}
    for weight, chain in mixture:
        for key in chain:
            shares[key] = shares.get(key, 0.0) + weight
    return [_scaled(_part(read(key)), share) for key, share in shares.items()]


def _scaled(module: Doubles, share: float) -> Doubles:
    return {name: array * share if name.endswith(".lora_B") else array for name, array in module.items()}


def _merged_ia3(mixture: Mixture, read: Read) -> list[Doubles]:
    """Scales multiply along a sequence; the products are averaged."""
    return [_average([(weight, _product([_part(read(key)) for key in chain])) for weight, chain in mixture])]


def _product(modules: list[Doubles]) -> Doubles:
    product = modules[0]
    for module in modules[1:]:
        product = {name: array * module[name] for name, array in product.items()}
    return product


def _average(parts: list[tuple[float, Doubles]]) -> Doubles:
    return {name: np.add.reduce([weight * part[name] for weight, part in parts]) for name in parts[0][1]}


def _part(module: Mapping[str, NDArray[np.float32]], head: bool = False) -> Doubles:
    """A module's head, or all but its head."""
    return {name: array.astype(np.float64) for name, array in module.items() if name.startswith(HEAD) == head}
