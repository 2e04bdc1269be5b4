"""A client's local training: a function of its arguments, which moves the open module and its head alone."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from tiny_world import World

from fedsgt.config.sections import Peft, Training
from fedsgt.data import Record
from fedsgt.engine.local_update import local_update
from fedsgt.engine.task import Update
from fedsgt.files.tensors import Tensors
from fedsgt.stack import profile
from fedsgt.stack.backbone import load_backbone
from fedsgt.stack.inputs import make_inputs
from fedsgt.stack.stack import HEAD, Stack
from fedsgt.store import tensor_hash

SETTINGS = Training(epochs=2, batch_size=4, learning_rate=0.05, clip=1.0)


class Bench:
    """A stack with one frozen module below, and examples."""

    def __init__(self, world: World, **peft: Any) -> None:
        profile.apply()
        model = world.config().model
        self.backbone = load_backbone(model.backbone, model.task, 3)
        self.stack = Stack(self.backbone, Peft(rank=2, tokens=2, hidden=8, **peft))
        below = self.stack.begin(1, self.stack.initial_head(1))
        rng = np.random.default_rng(3)
        moved = {name: array + rng.normal(0, 0.1, array.shape).astype("f4") for name, array in below.items()}
        self.below = self.stack.finish(moved)
        self.stack.load([self.below])
        self.state = self.stack.begin(2, self.below)
        inputs = make_inputs(model, self.backbone)
        rows = world.rows[:10]
        records = [Record(row.id, (row.content,), row.label) for row in rows]
        self.examples = [(record, inputs.item(record.id, record.content)) for record in records]
        self.make_batch = inputs.batch

    def update(self, seed: int = 7, count: int | None = None, **settings: Any) -> Update:
        chosen, changed = self.examples[:count], SETTINGS.model_copy(update=settings)
        return local_update(self.stack, self.state, chosen, self.make_batch, changed, seed, "c0")


@pytest.fixture(scope="module")
def bench(images: World) -> Bench:
    return Bench(images)


def moved(before: Tensors, after: Tensors) -> set[str]:
    assert before.keys() == after.keys()
    return {name for name in before if not np.array_equal(before[name], after[name])}


@pytest.mark.parametrize("kind", ["lora", "ia3", "prefix"])
def test_only_the_open_module_and_its_head_change(images: World, kind: str) -> None:
    bench = Bench(images, kind=kind)
    start = {name: array.copy() for name, array in bench.state.items()}
    below = tensor_hash(bench.below)
    update = bench.update()
    assert moved(start, update.state) == start.keys()
    assert not moved(start, bench.state), "what the round starts from was written into"
    assert tensor_hash(bench.below) == below
    bench.backbone.check()
    assert not any(parameter.requires_grad for parameter in bench.backbone.model.parameters())
    assert not any(parameter.grad is not None for parameter in bench.backbone.model.parameters())


def test_afterwards_the_stack_holds_what_was_loaded(bench: Bench) -> None:
    """No trace of the training: neither the open module nor its head answers the next question."""
    batch = bench.make_batch([item for _, item in bench.examples])
    before = bench.stack.logits(batch)
    bench.update()
    assert torch.equal(bench.stack.logits(batch), before)


def test_freeze_a_trains_the_other_factor_and_the_head(images: World) -> None:
    bench = Bench(images, freeze_a=True)
    changed = moved(bench.state, bench.update().state)
    assert changed == {name for name in bench.state if not name.endswith("lora_A")}
    assert any(name.startswith(HEAD) for name in changed)


def test_same_seed_same_bytes_whatever_came_before(bench: Bench) -> None:
    first = bench.update(seed=7)
    bench.update(seed=8)
    torch.manual_seed(99)
    np.random.seed(99)  # noqa: NPY002
    again = bench.update(seed=7)
    assert tensor_hash(first.state) == tensor_hash(again.state)
    assert first.loss == again.loss


def test_the_global_generators_are_left_alone(bench: Bench) -> None:
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    known = torch.rand(3), np.random.rand(3)  # noqa: NPY002
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    bench.update()
    assert torch.equal(torch.rand(3), known[0])
    assert np.array_equal(np.random.rand(3), known[1])  # noqa: NPY002


def test_the_seed_decides_the_order_of_records(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = batches_of(bench, monkeypatch)
    orders: dict[int, tuple[int, ...]] = {}
    for seed in (7, 8, 7):
        seen.clear()
        bench.update(seed=seed)
        assert [len(batch) for batch in seen] == [4, 4, 2, 4, 4, 2]
        for epoch in (seen[:3], seen[3:]):
            assert sorted(chain(*epoch)) == list(range(10)), "every record once an epoch"
        order = tuple(chain(*seen))
        assert orders.setdefault(seed, order) == order
        assert order[:10] != order[10:], "every epoch has an order of its own"
    assert orders[7] != orders[8]


def batches_of(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The records of each batch, by number, as they come."""
    seen: list[list[int]] = []
    number = {id(item): index for index, (_, item) in enumerate(bench.examples)}
    inner = bench.make_batch

    def batch(items: Any) -> Any:
        seen.append([number[id(item)] for item in items])
        return inner(items)

    monkeypatch.setattr(bench, "make_batch", batch)
    return seen


@pytest.mark.parametrize("count", [1, 3, 10])
def test_a_batch_larger_than_the_data(bench: Bench, count: int) -> None:
    large = bench.update(count=count, batch_size=1000, epochs=1)
    exact = bench.update(count=count, batch_size=count, epochs=1)
    assert tensor_hash(large.state) == tensor_hash(exact.state)
    assert large.records == count
    assert moved(bench.state, large.state)


def test_the_loss_is_the_mean_over_records_of_the_last_epoch(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[tuple[float, int]] = []
    inner = torch.nn.functional.cross_entropy

    def noted(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        loss = inner(logits, labels)
        steps.append((loss.item(), len(labels)))
        return loss

    monkeypatch.setattr(torch.nn.functional, "cross_entropy", noted)
    update = bench.update(epochs=3)
    assert len(steps) == 9
    assert update.loss == sum(loss * count for loss, count in steps[6:]) / 10


def test_clipping_bounds_a_step(bench: Bench) -> None:
    """One step of SGD moves all parameters together by rate times the clipped norm."""
    one: dict[str, Any] = {"optimizer": "sgd", "learning_rate": 1.0, "epochs": 1, "batch_size": 100}
    free = distance(bench.state, bench.update(clip=None, **one).state)
    assert free > 0.02
    for clip in (0.01, free / 2):
        assert distance(bench.state, bench.update(clip=clip, **one).state) == pytest.approx(clip, rel=1e-3)
    same = bench.update(clip=free * 2, **one)
    assert tensor_hash(same.state) == tensor_hash(bench.update(clip=None, **one).state)


def distance(before: Tensors, after: Tensors) -> float:
    squares = [((before[name].astype(float) - after[name]) ** 2).sum() for name in before]
    return float(np.sqrt(sum(squares)))


def test_sgd_is_plain_gradient_descent(bench: Bench) -> None:
    """A step of it against the gradient, taken by itself."""
    rate, decay = 0.1, 0.5
    opened = bench.stack.open(bench.state)
    batch = bench.make_batch([item for _, item in bench.examples])
    labels = torch.tensor([record.label for record, _ in bench.examples])
    loss = torch.nn.functional.cross_entropy(bench.stack.logits(batch), labels)
    names = list(opened)
    gradients = torch.autograd.grad(loss, [opened[name] for name in names])
    bench.stack.close()
    update = bench.update(
        optimizer="sgd", learning_rate=rate, weight_decay=decay, clip=None, epochs=1, batch_size=100
    )
    for name, gradient in zip(names, gradients, strict=True):
        expected = bench.state[name] - rate * (gradient.numpy() + decay * bench.state[name])
        assert update.state[name] == pytest.approx(expected, abs=1e-5)


def test_adamw_takes_steps_of_the_rate(bench: Bench) -> None:
    """Its first step is the rate in every coordinate with a gradient that is not tiny."""
    update = bench.update(epochs=1, batch_size=100, learning_rate=0.01, clip=None)
    for name in bench.state:
        if not name.endswith("lora_A"):  # its gradient is zero while B is
            assert np.abs(update.state[name] - bench.state[name]).max() == pytest.approx(0.01, rel=1e-2)
    sgd = bench.update(epochs=1, batch_size=100, learning_rate=0.01, clip=None, optimizer="sgd")
    assert tensor_hash(sgd.state) != tensor_hash(update.state)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_an_optimiser_begins_anew_with_every_update(bench: Bench, optimizer: str) -> None:
    assert tensor_hash(bench.update(optimizer=optimizer).state) == tensor_hash(
        bench.update(optimizer=optimizer).state
    )


def test_an_update_that_failed_leaves_nothing_behind(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    known = tensor_hash(bench.update().state)

    batches = iter([bench.make_batch])

    def fail_at_the_second(items: Any) -> Any:
        return next(batches, lambda _: (_ for _ in ()).throw(MemoryError))(items)

    with monkeypatch.context() as patch:
        patch.setattr(bench, "make_batch", fail_at_the_second)
        with pytest.raises(MemoryError):
            bench.update()
    assert tensor_hash(bench.update().state) == known


def test_training_learns(bench: Bench) -> None:
    losses = [bench.update(epochs=epochs).loss for epochs in (1, 4, 16)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0] / 2
