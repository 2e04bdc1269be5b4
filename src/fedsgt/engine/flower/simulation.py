"""Flower's simulation on Ray: a node for each client, on as many processes as there are workers.

Flower starts its simulation from its own command line only; what that does inside is done here with the same
parts, so that a training can be started, watched and stopped like any other.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import ray
from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.proto.task_pb2 import Task
from flwr.server.superlink.fleet.vce import vce_api
from flwr.server.superlink.fleet.vce.metrics import VceMetrics
from flwr.server.superlink.linkstate import InMemoryLinkState, LinkStateFactory
from flwr.server.superlink.linkstate.in_memory_linkstate import RunRecord
from flwr.serverapp import Grid
from flwr.supercore.constant import FLWR_IN_MEMORY_DB_NAME, NOOP_FEDERATION_ID
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.federation import NoOpFederationManager
from flwr.superlink.grid import InMemoryGrid

from fedsgt.engine.flower.client_app import make_client_app
from fedsgt.engine.flower.node import Node, SharedStore
from fedsgt.engine.pool import Inline
from fedsgt.engine.worker import Setup
from fedsgt.errors import InputError

HOLDER = "fedsgt-setup"
RUN, TASK = 1, 1
OFFLINE = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}


class Holder:
    """Keeps what all nodes are started with, in memory; it goes when the simulation does."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    def get(self) -> Setup:
        return self.setup


def share_setup(setup: Setup) -> object:
    """For the nodes of the Ray that this process has started; it is there as long as what this returns."""
    holder: Any = ray.remote(Holder).options(name=HOLDER, num_cpus=0).remote(setup)
    ray.get(holder.get.remote())
    return holder


@cache
def node_of_simulation() -> Node:
    """One for each of Ray's processes, whichever clients it is to be."""
    holder: Any = ray.get_actor(HOLDER)
    setup: Any = ray.get(holder.get.remote())
    return Node(Inline(setup), SharedStore())


def _find(context: Context) -> Node:
    return node_of_simulation()


app: ClientApp = make_client_app(_find)


@contextmanager
def simulated(setup: Setup, nodes: int, processes: int) -> Iterator[Grid]:
    """A grid of so many nodes, over so many processes with one core each."""
    os.environ.update(OFFLINE)
    # With the default, every process would be made to look as if it had no GPU; ours says which it uses.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    logging.getLogger("flwr").setLevel(logging.ERROR)
    _start_ray(processes)
    try:
        holder = share_setup(setup)
        state = _state()
        grid = InMemoryGrid(state_factory=state)
        grid.set_run(_run(state))
        stop = threading.Event()
        thread = threading.Thread(target=_serve, args=(state, stop, nodes, processes), daemon=True)
        thread.start()
        try:
            _await_nodes(grid, nodes, thread)
            yield grid
        finally:
            stop.set()
            thread.join()
            del holder
    finally:
        ray.shutdown()


def _start_ray(processes: int) -> None:
    if ray.is_initialized():
        raise InputError("engine flower-sim: Ray is running in this process already; end that first")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(
            num_cpus=processes,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=256 << 20,
        )


def _state() -> LinkStateFactory:
    return LinkStateFactory(FLWR_IN_MEMORY_DB_NAME, NoOpFederationManager(), ObjectStoreFactory())


def _run(factory: LinkStateFactory) -> Run:
    run = Run.create_empty(RUN)
    run.primary_task_id, run.federation_id = TASK, NOOP_FEDERATION_ID
    state = factory.state()
    assert isinstance(state, InMemoryLinkState)
    state.run_ids[RUN] = RunRecord(run=run)
    state.task_store[TASK] = Task(task_id=TASK, run_id=RUN)
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = TASK, RUN, 1
    return run


def _serve(factory: LinkStateFactory, stop: threading.Event, nodes: int, processes: int) -> None:
    vce_api.start_vce(
        backend_name="ray",
        backend_config_json_stream=json.dumps({"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}),
        app_dir="",
        is_app=False,
        f_stop=stop,
        run=Run.create_empty(RUN),
        metrics=VceMetrics(),
        client_app=app,
        num_supernodes=nodes,
        state_factory=factory,
    )


def _await_nodes(grid: Grid, nodes: int, thread: threading.Thread) -> None:
    while len(list(grid.get_node_ids())) < nodes:
        if not thread.is_alive():
            raise InputError("engine flower-sim: the simulation did not start; see Ray's log")
        thread.join(0.05)
