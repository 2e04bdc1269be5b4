"""A phase changes its own module and head, and nothing else: exactness rests on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from fedsgt.files.tensors import Tensors
from fedsgt.stack.stack import HEAD, Stack

if TYPE_CHECKING:
    from tests.stack.conftest import Tiny


def as_bytes(modules: list[Tensors]) -> list[dict[str, bytes]]:
    return [{name: array.tobytes() for name, array in module.items()} for module in modules]


def test_a_phase_changes_its_own_module_and_nothing_else(tiny: Tiny, model: str, kind: str) -> None:
    stack, batch = tiny.stack(model, kind), tiny.batch(model)
    modules: list[Tensors] = []
    for phase in range(3):
        before = as_bytes(modules)
        modules.append(tiny.train(stack, modules, batch, seed=phase))
        assert as_bytes(modules[:-1]) == before
        stack.backbone.check()


def test_each_phase_has_its_own_head(tiny: Tiny, model: str, kind: str) -> None:
    """The second phase starts from the first one's head, and leaves it as it was."""
    stack, batch = tiny.stack(model, kind), tiny.batch(model)
    first = tiny.train(stack, [], batch)
    started = stack.begin(1, first)
    second = tiny.train(stack, [first], batch, seed=1)
    heads = [name for name in first if name.startswith(HEAD)]
    assert heads == [HEAD + name for name in sorted(stack.head)]
    for name in heads:
        assert started[name].tobytes() == first[name].tobytes()
        assert second[name].tobytes() != first[name].tobytes()


def test_exactly_the_open_state_is_trainable(tiny: Tiny, model: str, kind: str) -> None:
    stack, batch = tiny.stack(model, kind), tiny.batch(model)
    modules = tiny.modules(stack, 1)
    stack.load(modules)
    assert trainable(stack) == set()
    state = stack.begin(0, modules[-1])
    opened = stack.open(state)
    assert set(opened) == set(state)
    assert all(value.requires_grad for value in opened.values())
    own = {id(value) for value in opened.values()}
    assert trainable(stack) <= own
    torch.autograd.backward(stack.logits(batch).sum())
    touched = {id(value) for value in stack.backbone.model.parameters() if value.grad is not None}
    assert touched <= own
    assert all(value.grad is not None for value in opened.values())
    stack.load(modules)
    assert trainable(stack) == set()
    assert all(value.grad is None for value in stack.backbone.model.parameters())


def trainable(stack: Stack) -> set[int]:
    return {id(value) for value in stack.backbone.model.parameters() if value.requires_grad}


def test_training_does_not_write_into_what_it_started_from(tiny: Tiny, kind: str) -> None:
    stack, batch = tiny.stack("bert", kind), tiny.batch("bert")
    state = stack.begin(0, stack.initial_head(0))
    before = as_bytes([state])
    opened = stack.open(state)
    torch.autograd.backward(stack.logits(batch).sum())
    with torch.no_grad():
        for value in opened.values():
            value.add_(1)
    assert as_bytes([state]) == before
    snapshot = stack.snapshot()
    kept = as_bytes([snapshot])
    with torch.no_grad():
        for value in opened.values():
            value.add_(1)
    assert as_bytes([snapshot]) == kept


def test_a_shorter_prefix_gives_its_own_bits_again(tiny: Tiny, model: str, kind: str) -> None:
    """Deactivation: after two more phases in the same stack, the first module predicts as before."""
    stack, batch = tiny.stack(model, kind), tiny.batch(model)
    modules: list[Tensors] = []
    seen = []
    for phase in range(3):
        modules.append(tiny.train(stack, modules, batch, seed=phase))
        seen.append(tiny.logits(stack, modules, batch))
    for length in (1, 3, 2, 1):
        assert torch.equal(tiny.logits(stack, modules[:length], batch), seen[length - 1])
    assert not torch.equal(seen[0], seen[1])


def test_closing_gives_back_what_was_loaded(tiny: Tiny, kind: str) -> None:
    stack, batch = tiny.stack("vit", kind), tiny.batch("vit")
    modules = tiny.modules(stack, 2)
    before = tiny.logits(stack, modules, batch)
    tiny.train(stack, modules, batch)
    stack.close()
    with torch.no_grad():
        assert torch.equal(stack.logits(batch), before)


def test_a_bare_backbone_knows_nothing(tiny: Tiny) -> None:
    stack, batch = tiny.stack("vit"), tiny.batch("vit")
    tiny.train(stack, [], batch)
    assert not tiny.logits(stack, [], batch).any()


def test_a_phase_is_a_function_of_its_parents_batch_and_seed(tiny: Tiny, kind: str) -> None:
    """Neither earlier use of the stack nor the global generator has any effect."""
    batch = tiny.batch("vit")
    used, fresh = tiny.stack("vit", kind), tiny.stack("vit", kind)
    parents = tiny.modules(used, 2)
    tiny.train(used, tiny.modules(used, 3), batch, seed=7)
    torch.manual_seed(123)
    one = tiny.train(used, parents, batch, seed=1)
    torch.manual_seed(321)
    two = tiny.train(fresh, parents, batch, seed=1)
    assert as_bytes([one]) == as_bytes([two])
    if kind != "ia3":  # which always starts from ones
        assert as_bytes([tiny.train(fresh, parents, batch, seed=2)]) != as_bytes([two])
