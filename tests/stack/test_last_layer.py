"""The last layer, computed for the first token alone, gives what the whole layer gives."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from plain_models import forward, own_projections
from torch import nn
from transformers import DeiTForImageClassificationWithTeacher

from fedsgt.config.sections import Peft
from fedsgt.stack import last_layer
from fedsgt.stack.backbone import Backbone, load_backbone
from fedsgt.stack.stack import HEAD, Stack

if TYPE_CHECKING:
    from tests.stack.conftest import Tiny


def test_a_class_whose_head_reads_a_second_token_keeps_it(tiny: Tiny, tmp_path: Path) -> None:
    """DeiT with a teacher looks at its distillation token too; only the first is computed for the others."""
    config: Any = tiny.untouched("deit").model.config
    DeiTForImageClassificationWithTeacher(config).save_pretrained(tmp_path)
    backbone, batch = load_backbone(str(tmp_path), "image", 5), tiny.batch("deit")
    plain = deepcopy(backbone.model)
    stack = Stack(backbone, Peft(rank=2))
    state = stack.begin(0, tiny.modules(stack, 1)[0])
    heads = {name: torch.from_numpy(state[HEAD + name]) for name in stack.head}
    plain.load_state_dict(heads, strict=False)
    assert len(heads) == 4
    assert torch.allclose(tiny.logits(stack, [state], batch), forward(plain, batch), atol=1e-5)


def test_the_short_last_layer_learns_what_the_whole_one_learns(
    tiny: Tiny, model: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compare gradients with the plain layer's, for modules at queries, keys and values."""
    attention = next(m for m in tiny.untouched(model).model.modules() if hasattr(m, "config") and is_query(m))
    targets = own_projections(attention)
    short = tiny.stack(model, kind, targets=targets)
    monkeypatch.setattr(last_layer, "FIRST_TOKEN", {})
    whole, batch = tiny.stack(model, kind, targets=targets), tiny.batch(model)
    assert [last_tokens(stack, batch) for stack in (short, whole)] == [1, last_tokens(whole, batch)]
    assert last_tokens(whole, batch) > 1
    parents = tiny.modules(short, 2)
    began = short.finish(short.begin(0, parents[-1]))
    ours, plain = (tiny.train(stack, parents, batch) for stack in (short, whole))
    for name, array in plain.items():
        moved = np.abs(array - began[name]).max()
        assert moved > 1e-5, f"{name} learnt nothing: the test shows nothing"
        assert np.abs(array - ours[name]).max() < moved / 20, name


def last_tokens(stack: Stack, batch: dict[str, Any]) -> int:
    """Return the number of tokens that the last layer outputs."""
    found: list[int] = []

    def note(layer: nn.Module, given: Any, out: Any) -> None:
        found.append((out[0] if isinstance(out, tuple) else out).shape[1])

    hook = stack.backbone.model.get_submodule(stack.places.layers[-1]).register_forward_hook(note)
    with torch.no_grad():
        stack.logits(batch)
    hook.remove()
    return found[0]


def test_the_short_last_layer_of_a_model_without_biases(tiny: Tiny, tmp_path: Path) -> None:
    plain = deepcopy(tiny.untouched("vit").model)
    for layer in plain.modules():
        for name in ("q_proj", "k_proj", "v_proj"):
            if hasattr(layer, name):
                getattr(layer, name).bias = None
    batch = tiny.batch("vit")
    stack = Stack(Backbone(deepcopy(plain), tiny.untouched("vit").head), Peft(rank=2))
    state = stack.begin(0, tiny.modules(tiny.stack("vit"), 1)[0])
    heads = {name.removeprefix(HEAD): torch.from_numpy(state[name]) for name in state if HEAD in name}
    plain.load_state_dict(heads, strict=False)
    assert torch.allclose(tiny.logits(stack, [stack.finish(state)], batch), forward(plain, batch), atol=1e-5)


def test_masks_that_are_added_and_masks_that_are_flags_are_one(tiny: Tiny) -> None:
    layer: Any = deepcopy(tiny.untouched("bert").model).get_submodule("bert.encoder.layer.2")
    tokens, seen = torch.randn(2, 5, 32), torch.tensor([[True] * 5, [True] * 3 + [False] * 2])[:, None, None]
    added = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
    short = last_layer.FIRST_TOKEN["BertForSequenceClassification"]
    flags, sums, none = (short(layer, tokens, mask) for mask in (seen, added, None))
    assert torch.equal(flags, sums)
    assert torch.equal(flags[0], none[0])
    assert not torch.allclose(flags[1], none[1])


def is_query(module: nn.Module) -> bool:
    return any(hasattr(module, name) for name in ("q_proj", "query", "q_lin"))
