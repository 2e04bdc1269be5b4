"""Results of a stack, compared with plain references."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from plain_models import forward, with_head

if TYPE_CHECKING:
    from tests.stack.conftest import Tiny

FRESH_IS_NEUTRAL = pytest.mark.parametrize("kind", ["lora", "ia3"])


@FRESH_IS_NEUTRAL
def test_a_fresh_module_changes_nothing(tiny: Tiny, model: str, kind: str) -> None:
    """Compare with the class's own forward pass, in training and loaded."""
    stack, batch = tiny.stack(model, kind), tiny.batch(model)
    state = stack.begin(0, tiny.modules(stack, 1)[0])
    expected = forward(with_head(tiny, model, state), batch)
    stack.load([])
    stack.open(state)
    with torch.no_grad():
        opened = stack.logits(batch)
    assert torch.allclose(opened, expected, atol=1e-5)
    assert torch.equal(tiny.logits(stack, [stack.finish(state)] * 3, batch), opened)


def test_folding_again_gives_the_same_bits(tiny: Tiny, kind: str) -> None:
    stack, batch = tiny.stack("bert", kind), tiny.batch("bert")
    modules, others = tiny.modules(stack, 3), tiny.modules(stack, 4)
    first = tiny.logits(stack, modules, batch)
    for between in (modules, others, [], modules[:1]):
        tiny.logits(stack, between, batch)
        assert torch.equal(tiny.logits(stack, modules, batch), first)
    assert torch.equal(tiny.logits(tiny.stack("bert", kind), modules, batch), first)
    stack.backbone.check()


def test_dropout_does_not_act(tiny: Tiny, model: str, kind: str) -> None:
    config = tiny.untouched(model).model.config.to_dict()
    rates = [value for key, value in config.items() if "dropout" in key and isinstance(value, float)]
    stack, batch = tiny.stack(model, kind), tiny.batch(model)
    stack.open(stack.begin(0, stack.initial_head(0)))
    torch.manual_seed(1)
    one = stack.logits(batch)
    torch.manual_seed(2)
    two = stack.logits(batch)
    assert torch.equal(one, two)
    assert any(rates) or model == "deit", "the configuration has no dropout: the test shows nothing"


def test_the_first_head_follows_the_seed_alone(tiny: Tiny, model: str) -> None:
    stack = tiny.stack(model)
    torch.manual_seed(1)
    one = stack.initial_head(3)
    torch.manual_seed(2)
    two = tiny.stack(model).initial_head(3)
    assert {name: array.tobytes() for name, array in one.items()} == {
        name: array.tobytes() for name, array in two.items()
    }
    other = stack.initial_head(4)
    for name, array in one.items():
        assert (array.tobytes() != other[name].tobytes()) == name.endswith(".weight"), "biases start at zero"


@pytest.mark.parametrize("layers", ["all", 1])
def test_features_are_the_trunks_output(tiny: Tiny, model: str, layers: Any) -> None:
    """Compare with the class's own: at the first token, and the mean over tokens, without padding."""
    stack, batch = tiny.stack(model, layers=layers), tiny.batch(model)
    plain = tiny.untouched(model).model.base_model
    with torch.no_grad():
        tokens = plain(**batch).last_hidden_state
        stack.load([])
        logits, bare = stack.outputs(batch)
    mask = batch.get("attention_mask", torch.ones(tokens.shape[:2]))
    means = torch.stack([row[seen.bool()].mean(dim=0) for row, seen in zip(tokens, mask, strict=True)])
    assert torch.allclose(bare, torch.cat([tokens[:, 0], means], dim=1), atol=1e-5)
    assert not logits.any(), "a bare backbone knows no label"
    assert stack.feature_width([]) == bare.shape[1] == 2 * stack.width


def test_features_and_logits_are_of_one_pass(tiny: Tiny, model: str, kind: str) -> None:
    """The head of the loaded modules, on the features, gives the logits; features leave no trace."""
    stack, batch = tiny.stack(model, kind), tiny.batch(model)
    modules = tiny.modules(stack, 2)
    before = tiny.logits(stack, modules, batch)
    with torch.no_grad():
        logits, features = stack.outputs(batch)
        assert torch.equal(logits, before)
        assert features.shape == (6, stack.feature_width(modules)) == (6, stack.width)
        stack.load([])
        stack.outputs(batch)
        assert torch.equal(tiny.logits(stack, modules, batch), before), "the last layer stayed whole"
    if model in ("vit", "deit"):
        head = {name: value.double() for name, value in stack.head.items()}
        again = features.double() @ head["classifier.weight"].T + head["classifier.bias"]
        assert torch.allclose(again.float(), logits, atol=1e-5)
