"""What the server does of a round, whatever carries the messages: start, average, finish."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedsgt.engine.aggregate import average
from fedsgt.engine.seeds import seed_of
from fedsgt.engine.task import ReadModule, Result, Task, Tensors, Update
from fedsgt.stack.stack import Stack


class Server:
    """Knows shapes and finished modules, and no data. Its arithmetic is NumPy's, in one fixed order."""

    def __init__(self, stack: Stack, read_module: ReadModule, seed: int) -> None:
        self.stack, self.read_module = stack, read_module
        self.seed = seed

    def start(self, task: Task) -> Tensors:
        """A later round goes on from its state; a first one takes the parent's head and a fresh module."""
        if task.state is not None:
            return task.state
        # All sequences begin with one head, so that averaging whole models later makes sense.
        parent = self.read_module(task.parents[-1]) if task.parents else None
        head = parent or self.stack.initial_head(seed_of("head", self.seed))
        return self.stack.begin(seed_of("module", task.key), head)

    def end(self, task: Task, start: Tensors, updates: Sequence[Update]) -> Result:
        """The round's average, with who took part."""
        mean = average(start, updates)
        ordered = sorted(updates, key=lambda update: update.client)
        participants = {update.client: update.records for update in ordered}
        loss = float(np.average([u.loss for u in ordered], weights=[u.records for u in ordered]))
        seconds = sum(update.seconds for update in ordered)
        return Result(task.key, task.round, mean, participants, loss, seconds)


def client_seed(task: Task, client: str) -> int:
    """SPEC definition 2: from the module's key (configuration, backbone, prefix), round and client."""
    return seed_of("client", task.key, task.round, client)
