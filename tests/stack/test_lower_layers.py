"""A pass that stops below the modules, and one that goes on from there, are one whole pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from fedsgt.stack.inputs import hidden_batch

if TYPE_CHECKING:
    from tests.stack.conftest import Tiny


@pytest.mark.parametrize("layers", [1, 2])
def test_lower_layers_and_the_rest_are_the_whole(tiny: Tiny, model: str, kind: str, layers: int) -> None:
    stack, batch = tiny.stack(model, kind, layers=layers), tiny.batch(model)
    assert stack.start == 3 - layers
    hidden = stack.lower(batch)
    text = "attention_mask" in batch
    lengths = batch["attention_mask"].sum(1).tolist() if text else [hidden.shape[1]] * len(hidden)
    kept = [{"hidden": row[:length].numpy()} for row, length in zip(hidden, lengths, strict=True)]
    modules = tiny.modules(stack, 2)
    whole = tiny.logits(stack, modules, batch)
    resumed = tiny.logits(stack, modules, hidden_batch(kept, text))
    assert torch.allclose(whole, resumed, atol=1e-5)
    assert torch.equal(stack.lower(batch), hidden), "modules reach below the layers that hold them"
    assert torch.equal(tiny.logits(stack, modules, batch), whole), "a resumed pass leaves something behind"


def test_training_from_lower_layers_is_training(tiny: Tiny, kind: str) -> None:
    stack, batch = tiny.stack("vit", kind, layers=1), tiny.batch("vit")
    cached = {"hidden": stack.lower(batch)}
    whole, resumed = tiny.train(stack, [], batch), tiny.train(stack, [], cached)
    for name, array in whole.items():
        assert np.allclose(array, resumed[name], atol=1e-5)


def test_a_pass_that_fails_leaves_no_trace(tiny: Tiny) -> None:
    """Otherwise the next pass would stop early, or read what was given to the failed one."""
    stack, batch = tiny.stack("vit", layers=1), tiny.batch("vit")
    modules = tiny.modules(stack, 1)
    whole, hidden = tiny.logits(stack, modules, batch), stack.lower(batch)
    with pytest.raises(ValueError, match="channel"):
        stack.lower({"pixel_values": batch["pixel_values"][:, :1]})
    assert not stack.lower_layers.stopping
    with pytest.raises(RuntimeError):
        stack.lower_layers.resume(hidden[:, :, :5], None)
    assert stack.lower_layers.given is None
    assert torch.equal(tiny.logits(stack, modules, batch), whole)


def test_without_layers_below_there_is_nothing_to_stop_at(tiny: Tiny) -> None:
    stack = tiny.stack("vit")
    assert stack.start == 0
    with pytest.raises(RuntimeError, match="did not come to the layer where modules start"):
        stack.lower(tiny.batch("vit"))
