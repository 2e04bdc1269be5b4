"""What the server does of a round, whatever carries the messages: start, average, finish."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedsgt.config.model import Training
from fedsgt.engine.aggregate import RunningMean
from fedsgt.engine.events import ClientUpdated
from fedsgt.engine.seeds import seed_of
from fedsgt.engine.task import ReadModule, Result, Task, Tensors, Update
from fedsgt.stack.stack import Stack


class Server:
    """Knows shapes and finished modules, and no data. Its arithmetic is NumPy's, in one fixed order."""

    def __init__(self, stack: Stack, read_module: ReadModule, training: Training) -> None:
        self.stack, self.read_module = stack, read_module
        self.training = training

    def start(self, task: Task) -> Tensors:
        """A later round goes on from its state; a first one takes the parent's head and a fresh module."""
        if task.state is not None:
            return task.state
        # All sequences begin with one head, so that averaging whole models later makes sense.
        parent = self.read_module(task.parents[-1]) if task.parents else None
        head = parent or self.stack.initial_head(seed_of("head", self.training.seed))
        return self.stack.begin(self._fresh(task), head)

    def _fresh(self, task: Task) -> int:
        """The seed of a module's fresh parameters: of no data, or of none but its own key's."""
        if self.training.start == "own":
            return seed_of("module", task.key)
        return seed_of("start", self.training.seed, len(task.parents) + 1)

    def open(self, task: Task, records: Mapping[str, int]) -> Round:
        """A round on so many records of each client."""
        return Round(task, self.start(task), records)


class Round:
    """One round of one module under way: updates come in, in any order, and what is left of them is a sum."""

    def __init__(self, task: Task, start: Tensors, records: Mapping[str, int]) -> None:
        self.task, self.start = task, start
        self.waiting = set(records)
        self.running = RunningMean(start, records)
        self.reports: dict[str, tuple[int, float, float]] = {}

    def add(self, update: Update) -> None:
        self.running.add(update)
        self.reports[update.client] = update.records, update.loss, update.seconds
        self.waiting.discard(update.client)

    def leave_out(self, client: str) -> None:
        """It is not waited for any more; the others' mean is as if it had never been asked."""
        if client in self.waiting:
            self.running.leave_out(client)
            self.waiting.discard(client)

    def result(self) -> Result:
        """The round's average, with who took part."""
        mean, reports = self.running.mean(), [self.reports[name] for name in sorted(self.reports)]
        records = [report[0] for report in reports]
        loss = float(np.average([report[1] for report in reports], weights=records))
        seconds = sum(report[2] for report in reports)
        participants = dict(zip(sorted(self.reports), records, strict=True))
        return Result(self.task.key, self.task.round, mean, participants, loss, seconds)


def updated(task: Task, update: Update) -> ClientUpdated:
    """Return the event that a client's update came in."""
    return ClientUpdated(
        module=task.key,
        groups=task.groups,
        client=update.client,
        round=task.round,
        records=update.records,
        seconds=update.seconds,
        loss=update.loss,
    )


def client_seed(task: Task, client: str) -> int:
    """SPEC definition 2: from the module's key (configuration, backbone, prefix), round and client."""
    return seed_of("client", task.key, task.round, client)
