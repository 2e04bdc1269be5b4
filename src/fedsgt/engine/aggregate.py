"""The server's part of a round: check every update, then average them in one fixed way (FedAvg)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from fedsgt.engine.task import Tensors, Update
from fedsgt.errors import InputError


class RefusedUpdate(InputError):
    """A client sent what cannot be used; `client` says who."""

    def __init__(self, client: str, reason: str) -> None:
        super().__init__(f"client {client}: update refused: {reason}")
        self.client, self.reason = client, reason


def average(start: Mapping[str, np.ndarray], updates: Sequence[Update]) -> Tensors:
    """Mean of the clients' states weighted by records: by client name, in float64, rounded once.

    LoRA's two factors are averaged each for itself, as FedAvg does; with A frozen that is exact.
    """
    if not updates:
        raise InputError("a round without any update cannot be averaged")
    ordered = sorted(updates, key=lambda update: update.client)
    for update in ordered:
        check(start, update)
    total = sum(update.records for update in ordered)
    mean: Tensors = {}
    for name in start:
        acc = np.zeros(start[name].shape, np.float64)
        for update in ordered:
            acc += update.state[name].astype(np.float64) * (update.records / total)
        mean[name] = acc.astype(np.float32)
    return mean


def check(start: Mapping[str, np.ndarray], update: Update) -> None:
    """Same names, shapes and type as the round started from, and finite; else it is refused by name."""
    for name in sorted(start.keys() ^ update.state.keys()):
        raise RefusedUpdate(update.client, f"{name} is {'missing' if name in start else 'not asked for'}")
    if not math.isfinite(update.loss):
        raise RefusedUpdate(update.client, f"its loss is {update.loss}; a lower learning rate may help")
    if update.records < 1:
        raise RefusedUpdate(update.client, f"{update.records} records; at least 1")
    for name, array in update.state.items():
        expected = start[name]
        if array.shape != expected.shape or array.dtype != np.float32:
            raise RefusedUpdate(
                update.client,
                f"{name} is {array.dtype} of shape {array.shape}; "
                f"it should be float32 of shape {expected.shape}",
            )
        if not np.isfinite(array).all():
            kind = "a NaN" if np.isnan(array).any() else "an infinite"
            raise RefusedUpdate(update.client, f"{name} holds {kind} value; a lower learning rate may help")


def check_distance(start: Mapping[str, np.ndarray], update: Update, most: float) -> None:
    """One client must not drag the average anywhere it likes."""
    squares = sum(
        float(np.square(update.state[name].astype(np.float64) - start[name]).sum()) for name in start
    )
    if not squares <= most * most:
        raise RefusedUpdate(
            update.client, f"it lies {math.sqrt(squares):.3g} from where it began; at most {most:g}"
        )
