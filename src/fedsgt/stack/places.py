"""The layers and linear layers of a model that hold modules, by exact name and never by part of a name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from fedsgt.errors import InputError
from fedsgt.words import counted

# Names of the same linear layer in the supported architectures, relative to the transformer layer.
QUERY = ("attention.q_proj", "attention.self.query", "attention.q_lin")
KEY = ("attention.k_proj", "attention.self.key", "attention.k_lin")
VALUE = ("attention.v_proj", "attention.self.value", "attention.v_lin")
FEEDFORWARD_OUT = ("mlp.fc2", "output.dense", "ffn.lin2")


@dataclass(frozen=True)
class Places:
    """The transformer's layers, those of them that hold modules, and the linear layers with modules."""

    layers: tuple[str, ...]
    """All layers, lowest first."""
    chosen: tuple[str, ...]
    """Layers that hold modules."""
    linears: tuple[str, ...]
    """Linear layers with a module on them."""

    @property
    def start(self) -> int:
        """Index of the lowest layer that holds a module; all below it is a fixed function of the input."""
        return min(self.layers.index(name) for name in self.chosen)


def find_places(
    model: nn.Module,
    layers: str | int | Sequence[str],
    targets: Sequence[str] | None,
    defaults: Sequence[tuple[str, ...]],
) -> Places:
    """Find the layers and linear layers that the settings `peft.layers` and `peft.targets` name."""
    known = layer_names(model)
    chosen = _choose(known, layers)
    linears = [
        linear
        for layer in chosen
        for linear in _linears(model.get_submodule(layer), layer, targets, defaults)
    ]
    return Places(known, chosen, tuple(linears))


def layer_names(model: nn.Module) -> tuple[str, ...]:
    """Return the names of the transformer's layers, lowest first.

    They are the one list of modules with as many entries as the model's configuration has layers.
    """
    wanted = int(getattr(model.config, "num_hidden_layers", 0))
    # The list is found by its length, because its name differs between architectures.
    for name, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) == wanted:
            return tuple(f"{name}.{index}" for index in range(wanted))
    raise InputError(
        f"model.backbone: no list of {counted(wanted, 'layer')} in a {type(model).__name__}; "
        "ViT, DeiT, BERT, RoBERTa and DistilBERT are known to work"
    )


def _choose(known: tuple[str, ...], layers: str | int | Sequence[str]) -> tuple[str, ...]:
    if layers == "all":
        return known
    if isinstance(layers, int):
        if layers > len(known):
            raise InputError(f"peft.layers: {layers} is more than the model's {counted(len(known), 'layer')}")
        return known[-layers:]
    for name in layers:
        if name not in known:
            raise InputError(
                f"peft.layers: no layer is named {name!r}; the model has {known[0]} to {known[-1]}"
            )
    if not layers:
        raise InputError(f"peft.layers: an empty list; name some of {known[0]} to {known[-1]}")
    # In the model's order, so that the order in the settings changes no bytes.
    return tuple(name for name in known if name in layers)


def _linears(
    layer: nn.Module, prefix: str, targets: Sequence[str] | None, defaults: Sequence[tuple[str, ...]]
) -> list[str]:
    """Return the layer's linear layers that hold modules, in the order in which the layer lists them."""
    inside = [name for name, module in layer.named_modules() if isinstance(module, nn.Linear)]
    wanted = list(targets) if targets is not None else _default_targets(inside, defaults)
    for target in wanted:
        if not any(_is(name, target) for name in inside):
            raise InputError(
                f"peft.targets: {target!r} is no linear layer of {prefix}; it has {', '.join(inside)}"
            )
    return [f"{prefix}.{name}" for name in inside if any(_is(name, target) for target in wanted)]


def _is(name: str, target: str) -> bool:
    """Whether the target is the whole path inside the layer, or its whole last part."""
    return target == name or ("." not in target and name.rpartition(".")[2] == target)


def _default_targets(inside: list[str], defaults: Sequence[tuple[str, ...]]) -> list[str]:
    found = [next((name for name in names if name in inside), None) for names in defaults]
    if None in found:
        raise InputError(f"peft.targets: no defaults for this model; choose some of {', '.join(inside)}")
    return [name for name in found if name is not None]
