"""Prefix tuning: each module puts virtual tokens before the keys and values of every layer.

Modules stack by concatenation, in an attention function of our own that is registered with transformers. A
phase trains a small projection; the module is the projection's output, the keys and values themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from fedsgt.config.sections import Peft
from fedsgt.files.tensors import Tensors
from fedsgt.stack.kinds import parameter, uniform
from fedsgt.stack.places import Places

ATTENTION = "fedsgt_prefix"
Pair = tuple[Tensor, Tensor]


class Slot:
    """Virtual tokens of one attention layer: frozen ones, then those in training."""

    def __init__(self) -> None:
        self.frozen: Pair | None = None
        self.training: Pair | None = None

    def prepend(self, key: Tensor, value: Tensor) -> Pair:
        """Return the layer's keys and values with those of the virtual tokens before them."""
        pairs = [pair for pair in (self.frozen, self.training) if pair is not None]
        # Expanded, not copied: all records of a batch share the virtual tokens.
        keys, values = ([pair[side].expand(key.shape[0], -1, -1, -1) for pair in pairs] for side in (0, 1))
        return torch.cat([*keys, key], dim=2), torch.cat([*values, value], dim=2)


def attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """Compute attention with the layer's virtual tokens, which every token may see."""
    slot: Slot | None = getattr(module, ATTENTION, None)
    own = key.shape[2]
    if slot is not None:
        key, value = slot.prepend(key, value)
    if mask is not None and key.shape[2] > own:
        # Virtual tokens come first, so the mask grows at the left; it is flags or numbers to add.
        seen = True if mask.dtype == torch.bool else 0.0
        mask = nn.functional.pad(mask, (key.shape[2] - own, 0), value=seen)
    done: tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, mask, **options)
    return done


AttentionInterface.register(ATTENTION, attend)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)


class Prefix:
    """Prefix modules in the given layers; `places.linears` are the layers' key projections."""

    def __init__(self, model: PreTrainedModel, places: Places, settings: Peft) -> None:
        self.tokens, self.hidden = settings.tokens, settings.hidden
        self.heads = int(model.config.num_attention_heads)
        first = model.get_submodule(places.linears[0])
        assert isinstance(first, nn.Linear)
        self.width, self.device = first.out_features, first.weight.device
        self.slots: dict[str, Slot] = {}
        for name in places.linears:
            attention = name.rpartition(".")[0]
            self.slots[attention] = Slot()
            setattr(model.get_submodule(attention), ATTENTION, self.slots[attention])
        model.set_attn_implementation(ATTENTION)
        self.opened: dict[str, nn.Parameter] = {}

    def initial(self, rng: np.random.Generator) -> Tensors:
        """Draw a projection of `tokens` embeddings, by one hidden layer, to all layers' keys and values."""
        out = 2 * len(self.slots) * self.width
        return {
            "prefix.embedding": rng.standard_normal((self.tokens, self.width), dtype=np.float32),
            "prefix.down.weight": uniform(rng, (self.hidden, self.width), self.width**-0.5),
            "prefix.down.bias": uniform(rng, (self.hidden,), self.width**-0.5),
            "prefix.up.weight": uniform(rng, (out, self.hidden), self.hidden**-0.5),
            "prefix.up.bias": uniform(rng, (out,), self.hidden**-0.5),
        }

    def finish(self, state: Mapping[str, NDArray[np.float32]]) -> Tensors:
        """Return the projection's output: keys and values of the virtual tokens in every layer."""
        # In float64 and by einsum, which does not call BLAS: rounding to float32 then hides in which order a
        # machine sums.
        wide = {name: array.astype(np.float64) for name, array in state.items()}
        inner = np.einsum("tw,hw->th", wide["prefix.embedding"], wide["prefix.down.weight"])
        inner = np.tanh(inner + wide["prefix.down.bias"])
        flat = np.einsum("th,oh->to", inner, wide["prefix.up.weight"]) + wide["prefix.up.bias"]
        split = flat.reshape(self.tokens, len(self.slots), 2, self.heads, -1).transpose(1, 2, 3, 0, 4)
        module: Tensors = {}
        for name, (key, value) in zip(self.slots, split.astype(np.float32), strict=True):
            module[f"{name}.prefix_key"], module[f"{name}.prefix_value"] = key.copy(), value.copy()
        return module

    def freeze(self, modules: Sequence[Tensors]) -> None:
        for name, slot in self.slots.items():
            slot.frozen = (
                (self._joined(modules, f"{name}.prefix_key"), self._joined(modules, f"{name}.prefix_value"))
                if modules
                else None
            )

    def _joined(self, modules: Sequence[Tensors], name: str) -> Tensor:
        return torch.from_numpy(np.concatenate([module[name] for module in modules], axis=1)).to(self.device)[
            None
        ]

    def open(self, state: Mapping[str, NDArray[np.float32]]) -> dict[str, nn.Parameter]:
        self.opened = {
            name: parameter(array, self.device) for name, array in state.items() if name.startswith("prefix.")
        }
        return dict(self.opened)

    def refresh(self) -> None:
        """Compute keys and values of the projection as it is now."""
        inner = nn.functional.linear(
            self.opened["prefix.embedding"],
            self.opened["prefix.down.weight"],
            self.opened["prefix.down.bias"],
        ).tanh()
        flat = nn.functional.linear(inner, self.opened["prefix.up.weight"], self.opened["prefix.up.bias"])
        split = flat.view(self.tokens, len(self.slots), 2, self.heads, -1).permute(1, 2, 3, 0, 4)
        for slot, pair in zip(self.slots.values(), split, strict=True):
            slot.training = pair[0][None], pair[1][None]

    def close(self) -> None:
        self.opened = {}
        for slot in self.slots.values():
            slot.training = None
