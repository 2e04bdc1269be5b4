"""The server's part of a round: check every update, then average them in one fixed way (FedAvg)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

import numpy as np

from fedsgt.engine.task import Tensors, Update
from fedsgt.errors import InputError

LARGEST_LOSS = 1e30  # weighted by records it must still be a number


class RefusedUpdate(InputError):
    """A client sent what cannot be used; `client` says who."""

    def __init__(self, client: str, reason: str) -> None:
        super().__init__(f"client {client}: update refused: {reason}")
        self.client, self.reason = client, reason


class RunningMean:
    """Mean of the clients' states weighted by records: in float64, in one order, rounded once.

    The order is by registered records, then by name, whatever comes in when; what comes before its turn is
    kept until then, so that no more than that is ever held. LoRA's two factors are averaged each for itself,
    as FedAvg does; with A frozen that is exact.
    """

    def __init__(self, start: Mapping[str, np.ndarray], records: Mapping[str, int]) -> None:
        self.start = start
        self.order = deque(turns(records))
        self.sums = {name: np.zeros(array.shape, np.float64) for name, array in start.items()}
        self.total = 0
        self.early: dict[str, Update | None] = {}

    def add(self, update: Update) -> None:
        check(self.start, update)
        self._take(update.client, update)

    def leave_out(self, client: str) -> None:
        self._take(client, None)

    def mean(self) -> Tensors:
        if not self.total:
            raise InputError("a round without any update cannot be averaged")
        return {name: (held / self.total).astype(np.float32) for name, held in self.sums.items()}

    def _take(self, client: str, update: Update | None) -> None:
        self.early[client] = update
        while self.order and self.order[0] in self.early:
            following = self.early.pop(self.order.popleft())
            if following is not None:
                self._sum(following)

    def _sum(self, update: Update) -> None:
        self.total += update.records
        for name in self.sums:
            self.sums[name] += update.state[name].astype(np.float64) * update.records


def turns(records: Mapping[str, int]) -> list[str]:
    """The order in which clients are asked and summed: those with most records first, then by name."""
    return sorted(records, key=lambda name: (-records[name], name))


def check(start: Mapping[str, np.ndarray], update: Update) -> None:
    """Same names, shapes and type as the round started from, and finite; else it is refused by name."""
    for name in sorted(start.keys() ^ update.state.keys()):
        raise RefusedUpdate(update.client, f"{name} is {'missing' if name in start else 'not asked for'}")
    if not abs(update.loss) < LARGEST_LOSS:
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
