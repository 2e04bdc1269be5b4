"""Prefix tuning: virtual tokens join in order, and every token sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from plain_models import own_projections
from torch import nn

from fedsgt.stack.prefix import Prefix

if TYPE_CHECKING:
    from tests.stack.conftest import Tiny


def test_prefixes_join_in_order(tiny: Tiny, model: str) -> None:
    """Keys and values are the modules' own, root first, with the one in training at the end."""
    stack, batch = tiny.stack(model, "prefix", layers=2), tiny.batch(model)
    modules = tiny.modules(stack, 2)
    assert isinstance(stack.kind, Prefix)
    assert len(stack.kind.slots) == 2
    stack.load(modules)
    state = stack.begin(5, modules[-1])
    stack.open(state)
    stack.logits(batch)
    finished = stack.finish(state)
    key = torch.zeros(1, 4, 1, 8)
    for name, slot in stack.kind.slots.items():
        for part, joined in zip(("prefix_key", "prefix_value"), slot.prepend(key, key), strict=True):
            parts = [module[f"{name}.{part}"] for module in (*modules, finished)]
            expected = torch.from_numpy(np.concatenate(parts, axis=1))
            assert torch.equal(joined[0, :, :6], expected[:, :6])
            assert torch.allclose(joined[0, :, 6:9], expected[:, 6:], atol=1e-5)
            assert not joined[0, :, 9:].any()


def test_prefixes_are_seen_by_every_token(tiny: Tiny, model: str) -> None:
    """Compare with attention written out: softmax over the virtual tokens and the record's own."""
    stack, batch = tiny.stack(model, "prefix"), tiny.batch(model)
    modules = tiny.modules(stack, 2)
    seen: dict[str, Any] = {}
    with_prefix = tiny.logits(stack, modules, batch)
    assert isinstance(stack.kind, Prefix)
    name, slot = next(iter(stack.kind.slots.items()))
    attention = stack.backbone.model.get_submodule(name)
    projections = [getattr(attention, part) for part in own_projections(attention)]
    hook = projections[0].register_forward_hook(lambda _, inputs, __: seen.update(inputs=inputs[0]))
    context = attention.register_forward_hook(lambda _, __, outputs: seen.update(outputs=outputs))
    assert torch.equal(tiny.logits(stack, modules, batch), with_prefix)
    hook.remove()
    context.remove()
    query, key, value = (split(projection(seen["inputs"])) for projection in projections)
    key, value = slot.prepend(key, value)
    scores = query @ key.transpose(2, 3) / 8**0.5
    if "attention_mask" in batch:
        mask = nn.functional.pad(batch["attention_mask"], (6, 0), value=1)
        scores = scores.masked_fill(mask[:, None, None, :] == 0, -torch.inf)
    mixed = (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)
    last = getattr(attention, "o_proj", None) or getattr(attention, "out_lin", None) or nn.Identity()
    found = seen["outputs"][0] if isinstance(seen["outputs"], tuple) else seen["outputs"]
    assert torch.allclose(found, last(mixed), atol=1e-5)


def split(flat: torch.Tensor) -> torch.Tensor:
    return flat.view(*flat.shape[:2], 4, 8).transpose(1, 2)


def test_the_module_is_what_training_saw(tiny: Tiny) -> None:
    """The stored keys and values are computed by NumPy, those in training by torch."""
    stack, batch = tiny.stack("vit", "prefix"), tiny.batch("vit")
    assert isinstance(stack.kind, Prefix)
    state = stack.begin(3, stack.initial_head(3))
    stack.open(state)
    stack.logits(batch)
    module = stack.finish(state)
    for name, slot in stack.kind.slots.items():
        assert slot.training is not None
        for part, seen in zip(("prefix_key", "prefix_value"), slot.training, strict=True):
            assert module[f"{name}.{part}"].shape == (4, 3, 8), "heads, tokens, width of a head"
            assert np.allclose(module[f"{name}.{part}"], seen[0].detach().numpy(), atol=1e-5)
    stack.close()
    assert all(slot.training is None for slot in stack.kind.slots.values())
    assert not any(name.startswith("prefix.") for name in module), "the projection is not kept"
