"""What each client would change in a first round, for a grouping that puts like clients together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsgt.engine.inprocess import InProcess
from fedsgt.engine.task import RoundFailed, Task
from fedsgt.engine.worker import Setup
from fedsgt.files.tensors import Tensors
from fedsgt.stack.stack import Stack


def first_updates(setup: Setup, stack: Stack) -> NDArray[np.float32]:
    """A row for each client: its ordinary local update on all its records, less where all of them began.

    A client without records changes nothing. The round's average is thrown away.
    """
    slices = {client: tuple(range(len(held))) for client, held in setup.slices.items()}
    task = Task(f"first-updates-{setup.run.training.seed}", (), slices)
    try:
        with InProcess(setup, stack) as engine:
            beginning = _flat(engine.server.start(task))
            updates = engine.updates(task)
    except RoundFailed as failed:
        raise failed.cause from None
    rows = {client: _flat(update.state) - beginning for client, update in updates.items()}
    return np.stack([rows.get(client, np.zeros_like(beginning)) for client in setup.slices])


def no_module(key: str) -> Tensors:
    """For a first round, which stands on nothing."""
    raise KeyError(key)


def _flat(state: Tensors) -> NDArray[np.float32]:
    return np.concatenate([state[name].ravel() for name in sorted(state)])
