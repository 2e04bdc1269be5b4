"""The client's local training: one function, called unchanged by every engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from fedsgt.config.model import Privacy, Training
from fedsgt.engine.privacy import privatised
from fedsgt.engine.task import Update
from fedsgt.files.tensors import Tensors
from fedsgt.stack.inputs import Batch, Item, to_device
from fedsgt.stack.stack import Stack


@dataclass(frozen=True)
class Examples:
    """A client's records of one prefix, in canonical order, ready to be put into batches."""

    items: Sequence[Item]
    labels: Sequence[int]
    batch: Callable[[Sequence[Item]], Batch]

    def __len__(self) -> int:
        return len(self.items)


def local_update(
    stack: Stack,
    state: Tensors,
    examples: Examples,
    settings: Training,
    seed: int,
    client: str,
    privacy: tuple[Privacy, bytes] | None = None,
) -> Update:
    """Train one module from `state` on these examples; the stack already holds the frozen modules below.

    A function of its arguments alone: the order of records comes from the seed, and gradients exist for the
    open module and its head only. `privacy` comes with the client's secret.
    """
    started = time.perf_counter()
    opened = stack.open(state)
    names = sorted(name for name, value in opened.items() if value.requires_grad)
    trained = [opened[name] for name in names]
    optimizer = _optimizer(trained, settings)
    rng = np.random.default_rng(seed)
    losses: list[float] = []
    for _ in range(settings.epochs):
        losses = [
            _step(stack, batch, labels, trained, optimizer, settings.clip) * len(labels)
            for batch, labels in _batches(
                examples, rng.permutation(len(examples)).tolist(), settings.batch_size, stack
            )
        ]
    trained_state = stack.snapshot()
    stack.close()
    seconds = time.perf_counter() - started
    update = Update(client, trained_state, len(examples), sum(losses) / len(examples), seconds)
    return privatised(state, update, names, *privacy) if privacy else update


def _step(
    stack: Stack,
    batch: Batch,
    labels: Tensor,
    trained: list[nn.Parameter],
    optimizer: torch.optim.Optimizer,
    clip: float | None,
) -> float:
    loss = nn.functional.cross_entropy(stack.logits(batch), labels)
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    if clip is not None:
        nn.utils.clip_grad_norm_(trained, clip)
    optimizer.step()
    return loss.item()


def _batches(
    examples: Examples, order: Sequence[int], size: int, stack: Stack
) -> Iterator[tuple[Batch, Tensor]]:
    for start in range(0, len(order), size):
        chosen = order[start : start + size]
        batch = to_device(examples.batch([examples.items[index] for index in chosen]), stack.device)
        yield batch, torch.tensor([examples.labels[index] for index in chosen], device=stack.device)


def _optimizer(trained: list[nn.Parameter], settings: Training) -> torch.optim.Optimizer:
    """Not fused: the fused kernels round differently."""
    rate, decay = settings.learning_rate, settings.weight_decay
    if settings.optimizer == "sgd":
        return torch.optim.SGD(trained, lr=rate, weight_decay=decay, foreach=False, fused=False)
    return torch.optim.AdamW(trained, lr=rate, weight_decay=decay, foreach=False, fused=False)
