"""The stack: a frozen backbone, an ordered list of frozen modules, and at most one module in training.

The head belongs to the module (definition 3): a new module starts from its parent's head and keeps its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedsgt.config.sections import Peft
from fedsgt.errors import InputError
from fedsgt.files.tensors import Tensors
from fedsgt.stack.backbone import Backbone
from fedsgt.stack.ia3 import Ia3
from fedsgt.stack.inputs import Batch, Item, to_device
from fedsgt.stack.kinds import Kind
from fedsgt.stack.last_layer import LastLayer
from fedsgt.stack.lora import Lora
from fedsgt.stack.lower_layers import LowerLayers
from fedsgt.stack.places import FEEDFORWARD_OUT, KEY, QUERY, VALUE, Places, find_places
from fedsgt.stack.prefix import Prefix

HEAD = "head."
# Each kind, and the linear layers that it changes if peft.targets names none.
KINDS: dict[str, tuple[Callable[[Any, Places, Peft], Kind], tuple[tuple[str, ...], ...]]] = {
    "lora": (Lora, (QUERY, VALUE)),
    "ia3": (Ia3, (KEY, VALUE, FEEDFORWARD_OUT)),
    "prefix": (Prefix, (KEY,)),
}


class Stack:
    """Everything between a batch and its logits; it reads the backbone's tensors and never writes them."""

    def __init__(self, backbone: Backbone, settings: Peft) -> None:
        self.backbone, self.settings = backbone, settings
        make, defaults = KINDS[settings.kind]
        # Prefix tuning has no choice of linear layers: it puts tokens before the keys of every attention.
        targets = None if settings.kind == "prefix" else settings.targets
        self.places = find_places(backbone.model, settings.layers, targets, defaults)
        parameters = dict(backbone.model.named_parameters())
        self.head = {name: parameters[name] for name in backbone.head}
        self.kind = make(backbone.model, self.places, settings)
        # The order matters: both replace forward functions, and the first layer with modules may be the last
        # one.
        self.last_layer = LastLayer(backbone.model, self.places.layers[-1])
        self.lower_layers = LowerLayers(backbone.model, self.places)
        self.opened: dict[str, nn.Parameter] = {}
        self.last: Tensors | None = None

    @property
    def start(self) -> int:
        """Number of layers at the bottom that hold no module."""
        return self.places.start

    @property
    def width(self) -> int:
        """Number of values that the trunk outputs for a token."""
        return int(self.backbone.model.config.hidden_size)

    def feature_width(self, chain: Sequence[Any]) -> int:
        """Return the number of a record's features under a chain of modules, or under none."""
        # The bare backbone has learnt nothing that gathers the record in its first token.
        return self.width if chain else 2 * self.width

    @property
    def device(self) -> torch.device:
        return next(iter(self.head.values())).device

    def initial_head(self, seed: int) -> Tensors:
        """Return the head that the first module of every sequence starts from.

        It depends on the run's seed alone, not on what is loaded.
        """
        rng = np.random.default_rng(seed)
        # Drawn by NumPy, whose numbers are the same on every machine and device.
        std = np.float32(getattr(self.backbone.model.config, "initializer_range", 0.02))
        drawn: Tensors = {}
        for name, tensor in self.head.items():
            shape = tuple(tensor.shape)
            # Biases start at zero and a normalisation's weights at one, as when a model is first made.
            flat = np.ones(shape, np.float32) if name.endswith(".weight") else np.zeros(shape, np.float32)
            many = len(shape) > 1
            drawn[HEAD + name] = rng.standard_normal(shape, dtype=np.float32) * std if many else flat
        return drawn

    def begin(self, seed: int, head: Mapping[str, NDArray[np.float32]]) -> Tensors:
        """Return the state that a phase starts from: a fresh module and a copy of this head."""
        state = self.kind.initial(np.random.default_rng(seed))
        return state | {HEAD + name: np.array(head[HEAD + name], np.float32) for name in self.head}

    def finish(self, state: Mapping[str, NDArray[np.float32]]) -> Tensors:
        """Return the module of a trained state: its parameters and its head."""
        heads = {name: array for name, array in state.items() if name.startswith(HEAD)}
        rest = {name: array for name, array in state.items() if name not in heads}
        return self.kind.finish(rest) | heads

    def load(self, modules: Sequence[Tensors]) -> None:
        """Load exactly these modules, root first, and the head of the last one; nothing is trainable."""
        self.close()
        self.kind.freeze(modules)
        self.last = modules[-1] if modules else None
        self._restore_head()

    def open(self, state: Mapping[str, NDArray[np.float32]]) -> dict[str, nn.Parameter]:
        """Put a module in training on top; exactly its parameters and the head require gradients."""
        self.close()
        self._set_head(state)
        self.opened = self.kind.open(state)
        for name, tensor in self.head.items():
            tensor.requires_grad_(True)
            self.opened[HEAD + name] = tensor
        return self.opened

    def snapshot(self) -> Tensors:
        """Return a copy of the state in training."""
        # Without the copy, arrays would share memory with parameters and change with the next step.
        return {name: value.detach().cpu().numpy().copy() for name, value in sorted(self.opened.items())}

    def close(self) -> None:
        """Take the module in training off; the loaded modules and their head are left."""
        self.kind.close()
        for tensor in self.head.values():
            tensor.requires_grad_(False)
            tensor.grad = None  # a gradient left over would be added to the next phase's
        if self.opened:
            self._restore_head()
        self.opened = {}

    def logits(self, batch: Mapping[str, Any]) -> Tensor:
        """Run the forward pass, on the lower layers' output if the batch has `hidden`, else on raw inputs."""
        if self.opened:
            self.kind.refresh()
        if "hidden" in batch:
            out = self.lower_layers.resume(batch["hidden"], batch.get("attention_mask"))
        else:
            out = self.backbone.model(**batch)
        found: Tensor = out.logits
        return found

    @torch.no_grad()
    def lower(self, batch: Mapping[str, Any]) -> Tensor:
        """Return the output of the layers that hold no module."""
        return self.lower_layers.compute(dict(batch))

    def outputs(self, batch: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
        """Return logits as `logits` does, and each record's features, of one forward pass.

        Features are the trunk's output before any pooler: at the first token, and without modules also its
        mean over all tokens.
        """
        seen: list[Tensor] = []
        trunk = self.backbone.model.base_model
        hook = trunk.register_forward_hook(lambda module, given, out: seen.append(out[0]))
        bare = self.last is None
        try:
            with self.last_layer.whole() if bare else nullcontext():
                logits = self.logits(batch)
        finally:
            hook.remove()
        first = seen[0][:, 0]
        return logits, torch.cat([first, _mean(seen[0], batch)], dim=1) if bare else first

    @torch.no_grad()
    def embeddings(
        self, items: Sequence[Item], make_batch: Callable[[Sequence[Item]], Batch], size: int = 64
    ) -> NDArray[np.float64]:
        """Return the trunk's output at each item's first token, with the modules that are loaded."""
        found = []
        for start in range(0, len(items), size):
            batch = to_device(make_batch(items[start : start + size]), self.device)
            hidden = self.backbone.model.base_model(**batch).last_hidden_state
            # Outputs are float64, because means over slices are taken of them.
            found.append(hidden[:, 0].double().cpu().numpy())
        return np.concatenate(found)

    def _restore_head(self) -> None:
        if self.last is not None:
            self._set_head(self.last)
        else:  # a bare backbone knows no label: with a head of zeros, all are equally likely
            for tensor in self.head.values():
                tensor.zero_()

    def _set_head(self, module: Mapping[str, NDArray[np.float32]]) -> None:
        with torch.no_grad():
            for name, tensor in self.head.items():
                values = module.get(HEAD + name)
                if values is None or tuple(values.shape) != tuple(tensor.shape):
                    found = "is missing" if values is None else f"has shape {values.shape}"
                    raise InputError(f"module: {HEAD + name} {found}; the model needs {tuple(tensor.shape)}")
                tensor.copy_(torch.from_numpy(np.asarray(values, np.float32)))


def _mean(tokens: Tensor, batch: Mapping[str, Any]) -> Tensor:
    """Return the mean over the tokens of each record, without padding."""
    mask = batch.get("attention_mask")
    if mask is None:
        return tokens.mean(dim=1)
    seen: Tensor = mask[:, :, None].to(tokens.dtype)
    return (tokens * seen).sum(dim=1) / seen.sum(dim=1)
