"""The groups of a new run, and what grouping methods that look at the data are told of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsgt import grouping
from fedsgt.config import Config
from fedsgt.engine.inprocess import InProcess
from fedsgt.engine.task import RoundFailed, Task
from fedsgt.engine.worker import Setup
from fedsgt.errors import InputError
from fedsgt.files.tensors import Tensors
from fedsgt.grouping import Grouping
from fedsgt.runs.records import ClientData
from fedsgt.stack.model import OpenModel
from fedsgt.stack.stack import Stack


def group_slices(run: Config, data: ClientData, model: OpenModel) -> Grouping:
    """Assign the slices of these clients to groups by the method that the run's settings name."""
    settings = run.grouping
    return grouping.make(
        settings.method,
        run.slices_per_client(),
        settings.groups,
        limits=settings.limits,
        seed=settings.seed,
        **_told_of_data(run, data, model),
        names=[client.name for client in data.clients],
    )


def _told_of_data(run: Config, data: ClientData, model: OpenModel) -> dict[str, Any]:
    """Return the input of the grouping method besides the numbers of slices."""
    method = run.grouping.method
    if method == "random":
        return {}
    if method == "affinity":  # each client is a cluster of its own, and so keeps to few groups
        return {"clusters": range(len(data.clients))}
    if data.remote:
        raise InputError(
            f"grouping.method: {method} looks at the records, which stay with remote clients; "
            "use random or affinity"
        )
    if method == "updates":
        return {"updates": first_updates(run, data, model.stack)}
    return {"embeddings": slice_embeddings(data, model)}


def slice_embeddings(data: ClientData, model: OpenModel) -> NDArray[np.float64]:
    """Return each slice's mean feature under the bare backbone (the paper's appendix on grouping)."""
    means = []
    for client in data.local:
        for records in client.cut():
            items = [model.inputs.item(record.id, record.content) for record in records]
            means.append(model.stack.embeddings(items, model.inputs.batch).mean(axis=0) if items else None)
    # An empty slice has no feature; the mean of the others draws it to no group in particular.
    known = [mean for mean in means if mean is not None]
    return np.stack([mean if mean is not None else np.mean(known, axis=0) for mean in means])


def first_updates(run: Config, data: ClientData, stack: Stack) -> NDArray[np.float32]:
    """Return a row for each client: what its local update on all its records changes in a first round.

    The row of a client without records is zero. The updates are not averaged.
    """
    setup = Setup.for_clients(run, data.labels, data.local, None, _no_module, None)
    slices = {client: tuple(range(len(held))) for client, held in setup.slices.items()}
    # The task's key gives the seeds, so equal settings give equal updates.
    task = Task(f"first-updates-{run.training.seed}", (), slices)
    try:
        with InProcess(setup, stack) as engine:
            start = _flat(engine.starter.start(task))
            updates = engine.updates(task)
    except RoundFailed as failed:
        raise failed.cause from None
    rows = {client: _flat(update.state) - start for client, update in updates.items()}
    return np.stack([rows.get(client, np.zeros_like(start)) for client in setup.slices])


def _no_module(key: str) -> Tensors:
    """Stand in for a store: a first round is trained on the backbone alone and reads no module."""
    raise KeyError(key)


def _flat(state: Tensors) -> NDArray[np.float32]:
    # Sorted by name, because the columns must mean the same in the rows of all clients.
    return np.concatenate([state[name].ravel() for name in sorted(state)])
