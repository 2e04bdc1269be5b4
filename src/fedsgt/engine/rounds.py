"""The server's part of a round, whatever carries the messages: start, check of updates, average (FedAvg).

The server knows shapes and finished modules, and no data. Its arithmetic is NumPy's, in one fixed order, so
that a round gives the same bytes on every engine.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

import numpy as np

from fedsgt.config.sections import Training
from fedsgt.engine.events import ClientUpdated
from fedsgt.engine.task import ReadModule, Result, Task, Update
from fedsgt.errors import InputError
from fedsgt.files.encoding import seed_of
from fedsgt.files.tensors import Tensors
from fedsgt.stack.stack import Stack
from fedsgt.window import Window, records_used
from fedsgt.words import counted

LARGEST_LOSS = 1e30  # weighted by records it must still be a finite number


class RoundStarter:
    """Opens rounds of any module of a run, each from the parameters that it must start with."""

    def __init__(self, stack: Stack, read_module: ReadModule, training: Training) -> None:
        self.stack, self.read_module = stack, read_module
        self.training = training

    def start(self, task: Task) -> Tensors:
        """Return the start of the round: the state of the round before, or else a fresh module.

        A fresh module comes with its parent's head.
        """
        if task.state is not None:
            return task.state
        parent = self.read_module(task.parents[-1]) if task.parents else None
        # All sequences begin with the same head, so that whole models can be averaged later.
        head = parent or self.stack.initial_head(seed_of("head", self.training.seed))
        return self.stack.begin(self._module_seed(task), head)

    def _module_seed(self, task: Task) -> int:
        """Return the seed of a module's fresh parameters, which must not depend on other groups' data."""
        if self.training.start == "own":
            # The key stands for the module's own prefix: whatever kills that prefix kills the module too.
            return seed_of("module", task.key)
        return seed_of("start", self.training.seed, len(task.parents) + 1)

    def open(self, task: Task, records: Mapping[str, int]) -> OpenRound:
        """Open a round in which each of these clients trains on so many records."""
        return OpenRound(task, self.start(task), records)


class OpenRound:
    """One round of one module under way: updates are added in any order, and only their sum is kept."""

    def __init__(self, task: Task, start: Tensors, records: Mapping[str, int]) -> None:
        self.task, self.start = task, start
        self.waiting = set(records)
        """Clients that have neither sent an update nor been left out."""
        self.running = RunningMean(start, records)
        self.reports: dict[str, tuple[int, float, float]] = {}
        """Records, loss and seconds of each client that took part."""

    def add(self, update: Update) -> None:
        """Check a client's update and add it to the average; raise `RefusedUpdate` if it cannot be used."""
        self.running.add(update)  # raises before anything is noted of a refused update
        self.reports[update.client] = update.records, update.loss, update.seconds
        self.waiting.discard(update.client)

    def leave_out(self, client: str) -> None:
        """Stop waiting for a client; the average is as if it had never been asked."""
        if client in self.waiting:
            self.running.leave_out(client)
            self.waiting.discard(client)

    def result(self) -> Result:
        """Return the round's average and the clients that took part."""
        mean = self.running.mean()  # first: it raises if nobody took part
        # By name, so that the mean loss does not depend on the order in which updates came in.
        names = sorted(self.reports)
        records, losses, seconds = zip(*(self.reports[name] for name in names), strict=True)
        loss = float(np.average(losses, weights=records))
        participants = dict(zip(names, records, strict=True))
        return Result(self.task.key, self.task.round, mean, participants, loss, sum(seconds))


class RunningMean:
    """Mean of the clients' states weighted by records: summed in float64 in one order, rounded once.

    Float addition depends on the order, so states are summed in `client_order`, whatever order they come in.
    A state that comes before its turn waits for it; no other state is ever held in memory. LoRA's two
    factors are averaged separately, as FedAvg does, which is exact only if factor A is frozen.
    """

    def __init__(self, start: Mapping[str, np.ndarray], records: Mapping[str, int]) -> None:
        self.start = start
        self.order = deque(client_order(records))
        # Sums are float64, so that the rounding to float32 at the end is the only one that matters.
        self.sums = {name: np.zeros(array.shape, np.float64) for name, array in start.items()}
        self.total = 0
        self.early: dict[str, Update | None] = {}
        """Updates that wait for their turn; None for a client that is left out."""

    def add(self, update: Update) -> None:
        """Check an update and sum it when its turn comes."""
        check_update(self.start, update)
        self._take(update.client, update)

    def leave_out(self, client: str) -> None:
        """Let the clients after this one have their turn without it."""
        self._take(client, None)

    def mean(self) -> Tensors:
        """Return the mean of all states that were added."""
        if not self.total:
            raise InputError("a round without any update cannot be averaged")
        return {name: (held / self.total).astype(np.float32) for name, held in self.sums.items()}

    def _take(self, client: str, update: Update | None) -> None:
        """Keep the update, or that there is none, and sum all updates whose turn has come."""
        self.early[client] = update
        while self.order and self.order[0] in self.early:
            following = self.early.pop(self.order.popleft())
            if following is not None:
                self._sum(following)

    def _sum(self, update: Update) -> None:
        self.total += update.records
        for name in self.sums:
            self.sums[name] += update.state[name].astype(np.float64) * update.records


def client_order(records: Mapping[str, int]) -> list[str]:
    """Return the order in which clients are asked and summed: most records first, then by name.

    The longest jobs start first, so that no worker is left alone with one at the end.
    """
    return sorted(records, key=lambda name: (-records[name], name))


def client_seed(task: Task, client: str) -> int:
    """Return the seed of a client's local training, from module key, round and client (definition 2)."""
    return seed_of("client", task.key, task.round, client)


def updated(task: Task, update: Update, window: Window) -> ClientUpdated:
    """Return the event that a client's update came in, from a training with this window."""
    used = records_used(update.records, len(task.parents) + 1, window)
    return ClientUpdated(
        module=task.key,
        groups=task.groups,
        client=update.client,
        round=task.round,
        records=update.records,
        seconds=update.seconds,
        loss=update.loss,
        preparing=update.preparing,
        used=used if used < update.records else None,
    )


class RefusedUpdate(InputError):
    """An update that cannot be used; `client` sent it."""

    def __init__(self, client: str, reason: str) -> None:
        super().__init__(f"client {client}: update refused: {reason}")
        self.client, self.reason = client, reason


def check_update(start: Mapping[str, np.ndarray], update: Update) -> None:
    """Raise `RefusedUpdate` unless names, shapes and types are those of `start` and all values are finite."""
    for name in sorted(start.keys() ^ update.state.keys()):
        raise RefusedUpdate(update.client, f"{name} is {'missing' if name in start else 'not asked for'}")
    if not abs(update.loss) < LARGEST_LOSS:  # written so that NaN is refused too
        raise RefusedUpdate(update.client, f"its loss is {update.loss}; a lower learning rate may help")
    if update.records < 1:
        raise RefusedUpdate(update.client, f"{counted(update.records, 'record')}; at least 1")
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
    """Raise `RefusedUpdate` if the update is further than `most` from the start, in Euclidean distance.

    Without a limit one client could drag the average anywhere.
    """
    squares = sum(
        float(np.square(update.state[name].astype(np.float64) - start[name]).sum()) for name in start
    )
    if not squares <= most * most:  # written so that NaN is refused too
        raise RefusedUpdate(
            update.client, f"it lies {math.sqrt(squares):.3g} from where it began; at most {most:g}"
        )
