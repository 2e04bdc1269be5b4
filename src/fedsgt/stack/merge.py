"""Several sequences averaged into one model, so that a prediction takes one forward pass for all of them.

The average is of the weights that the modules make of the backbone's; for LoRA and IA3 it can be written as
modules again. It is not the average of the sequences' probabilities, and less accurate than that.
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
# Merged modules are float64, because the stack rounds once, when it folds them into its weights.
Doubles: TypeAlias = dict[str, NDArray[Any]]


def merge(kind: str, mixture: Mixture, read: Read) -> list[Doubles]:
    """Return the modules to load for the weighted average of these sequences and their heads."""
    check_mergeable(kind)
    modules = (_merged_lora if kind == "lora" else _merged_ia3)(mixture, read)
    heads = [(weight, _part(read(chain[-1]), head=True)) for weight, chain in mixture]
    modules[-1] |= _average(heads)  # the stack takes the head of the last module
    return modules


def check_mergeable(kind: str) -> None:
    """Raise if modules of this kind have no average."""
    if kind == "prefix":
        raise InputError(
            "strategy: merged is not for peft.kind = prefix: virtual tokens of different sequences have no "
            "average; use all, min or long"
        )


def _merged_lora(mixture: Mixture, read: Read) -> list[Doubles]:
    """Scale each module's B by the sum of the weights of the sequences that it is in."""
    # LoRA adds to a weight the sum of B A over modules, so its average over sequences is such a sum too. A
    # module that several sequences share is read and folded once.
    shares: dict[str, float] = {}
    for weight, chain in mixture:
        for key in chain:
            shares[key] = shares.get(key, 0.0) + weight
    return [_scaled(_part(read(key)), share) for key, share in shares.items()]


def _scaled(module: Doubles, share: float) -> Doubles:
    return {name: array * share if name.endswith(".lora_B") else array for name, array in module.items()}


def _merged_ia3(mixture: Mixture, read: Read) -> list[Doubles]:
    """Average the products of the scales along each sequence into a single module."""
    return [_average([(weight, _product([_part(read(key)) for key in chain])) for weight, chain in mixture])]


def _product(modules: list[Doubles]) -> Doubles:
    product = modules[0]
    for module in modules[1:]:
        product = {name: array * module[name] for name, array in product.items()}
    return product


def _average(parts: list[tuple[float, Doubles]]) -> Doubles:
    return {name: np.add.reduce([weight * part[name] for weight, part in parts]) for name in parts[0][1]}


def _part(module: Mapping[str, NDArray[np.float32]], head: bool = False) -> Doubles:
    """Return a module's head, or all of it but the head, in float64."""
    return {name: array.astype(np.float64) for name, array in module.items() if name.startswith(HEAD) == head}
