"""The client's local training: one function, which every engine calls unchanged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from fedsgt.config.sections import Privacy, Training
from fedsgt.data import Record, labels_of
from fedsgt.engine.epoch_sampler import EpochSampler
from fedsgt.engine.privacy import privatised
from fedsgt.engine.task import Update
from fedsgt.files.tensors import Tensors
from fedsgt.stack.inputs import Batch, Item, to_device
from fedsgt.stack.stack import Stack

Example: TypeAlias = tuple[Record, Item]
"""A record, and the arrays that the model reads of it."""


def local_update(
    stack: Stack,
    state: Tensors,
    examples: Sequence[Example],
    make_batch: Callable[[Sequence[Item]], Batch],
    settings: Training,
    seed: int,
    client: str,
    privacy: tuple[Privacy, bytes] | None = None,
    sampler: EpochSampler | None = None,
) -> Update:
    """Train one module from `state` on these examples and return the client's update.

    The stack already holds the frozen modules below. The update is a function of the arguments alone:
    examples come in the order of their ids, the seed permutes them, and gradients exist for the open module
    and its head only. `privacy` is given together with the client's secret. With a sampler an epoch uses some
    of the examples, perhaps none; the update counts for all of them.
    """
    started = time.perf_counter()
    opened = stack.open(state)
    # Sorted by name, because the optimizer and the gradient's norm go through the parameters in this order.
    names = sorted(name for name, value in opened.items() if value.requires_grad)
    trained = [opened[name] for name in names]
    optimizer = _optimizer(trained, settings)
    rng = np.random.default_rng(seed)  # a generator of its own: the global ones would depend on other jobs
    loss = 0.0  # stays so if no epoch uses a record, which happens to clients with very few only
    for epoch in range(settings.epochs):
        used = examples if sampler is None else sampler.used(examples, epoch)
        if not used:
            continue
        losses = [
            # Times the batch's size, because the last batch may be smaller.
            _step(stack, batch, labels, trained, optimizer, settings.clip) * len(labels)
            for batch, labels in _batches(
                [used[index] for index in rng.permutation(len(used))],
                settings.batch_size,
                make_batch,
                stack.device,
            )
        ]
        # Only the last epoch's loss is reported: the earlier ones are those of a worse model.
        loss = sum(losses) / len(used)
    trained_state = stack.snapshot()
    stack.close()  # the worker has one stack for all clients
    seconds = time.perf_counter() - started
    update = Update(client, trained_state, len(examples), loss, seconds)
    return privatised(state, update, names, *privacy) if privacy else update


def _step(
    stack: Stack,
    batch: Batch,
    labels: Tensor,
    trained: list[nn.Parameter],
    optimizer: torch.optim.Optimizer,
    clip: float | None,
) -> float:
    """Take one optimizer step, and return the batch's mean loss before it."""
    loss = nn.functional.cross_entropy(stack.logits(batch), labels)
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    if clip is not None:
        nn.utils.clip_grad_norm_(trained, clip)
    optimizer.step()
    return loss.item()


def _batches(
    examples: Sequence[Example],
    size: int,
    make_batch: Callable[[Sequence[Item]], Batch],
    device: torch.device,
) -> Iterator[tuple[Batch, Tensor]]:
    """Yield batches of the examples in their order, each with its labels."""
    for start in range(0, len(examples), size):
        chosen = examples[start : start + size]
        batch = to_device(make_batch([item for _, item in chosen]), device)
        yield batch, torch.tensor(labels_of(record for record, _ in chosen), device=device)


def _optimizer(trained: list[nn.Parameter], settings: Training) -> torch.optim.Optimizer:
    """Return a new optimizer for these parameters."""
    # Neither `foreach` nor `fused`: those kernels round differently, and torch picks them by device.
    rate, decay = settings.learning_rate, settings.weight_decay
    if settings.optimizer == "sgd":
        return torch.optim.SGD(trained, lr=rate, weight_decay=decay, foreach=False, fused=False)
    return torch.optim.AdamW(trained, lr=rate, weight_decay=decay, foreach=False, fused=False)
