"""Flower's simulation on Ray: a node for each client, on as many processes as there are workers.

Flower runs a simulation to its end: it starts Ray's processes, calls the server's app, and stops them when
that returns. Here the server's app only hands out its grid and waits, so that a training over that grid can
be started, watched and stopped like any other.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import ray
from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from fedsgt.engine.flower.internals import silence_simulation
from fedsgt.engine.flower.node import PoolNode, SharedStore, make_client_app
from fedsgt.engine.pool import Inline
from fedsgt.engine.worker import Setup
from fedsgt.errors import InputError

SETUP = "fedsgt-setup"  # name of the Ray actor that holds it
OFFLINE = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}
# One core for each process. A GPU is not dealt out: the run's settings say which one is used.
BACKEND: dict[str, Any] = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
NOT_STARTED = "engine flower-sim: the simulation did not start; see Ray's log"
LOOK_SECONDS = 0.05


class SharedSetup:
    """Ray actor that keeps in memory what all nodes are started with, and ends with the simulation."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    def get(self) -> Setup:
        return self.setup


@cache
def node_of_process() -> PoolNode:
    """Return the node of this Ray process, which plays whichever client it is sent orders for."""
    actor: Any = ray.get_actor(SETUP)
    setup: Any = ray.get(actor.get.remote())
    return PoolNode(Inline(setup), SharedStore())


def _find(context: Context) -> PoolNode:
    return node_of_process()


# Found by name in Ray's processes, which import this module and make their own.
app: ClientApp = make_client_app(_find)


class Simulation:
    """Flower's simulation in a thread, from `start` until `stop`."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self.grid: Grid | None = None
        self.over = threading.Event()
        # A daemon, so that a simulation that does not stop cannot keep the process from ending.
        self.thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> Grid:
        """Start it and return its grid once all nodes are there."""
        self.thread.start()
        while self.grid is None or len(list(self.grid.get_node_ids())) < self.nodes:
            if not self.thread.is_alive():
                raise InputError(NOT_STARTED)
            time.sleep(LOOK_SECONDS)
        return self.grid

    def stop(self) -> None:
        """Let the server's app return, by which Flower ends the simulation."""
        self.over.set()
        self.thread.join()

    def _run(self) -> None:
        server = ServerApp()

        @server.main()
        def hand_out_grid(grid: Grid, context: Context) -> None:
            self.grid = grid
            self.over.wait()

        try:
            run_simulation(server, app, self.nodes, backend_config=BACKEND)
        except Exception as error:  # `start` sees that the thread has ended; Flower has logged the rest
            logging.getLogger(__name__).error("%s", error)


@contextmanager
def simulated(setup: Setup, nodes: int, processes: int) -> Iterator[Grid]:
    """Yield a grid of so many nodes over so many processes with one core each."""
    os.environ.update(OFFLINE)
    # By default Ray would hide the GPU from every process; the run's settings say which one is used.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    logging.getLogger("flwr").setLevel(logging.ERROR)
    silence_simulation()
    _start_ray(processes)
    try:
        # Held until the end: Ray ends an actor that nobody refers to.
        actor: Any = ray.remote(SharedSetup).options(name=SETUP, num_cpus=0).remote(setup)
        ray.get(actor.get.remote())
        simulation = Simulation(nodes)
        try:
            yield simulation.start()
        finally:
            simulation.stop()
            del actor
    finally:
        ray.shutdown()


def _start_ray(processes: int) -> None:
    """Start Ray before Flower would, which has fewer options for it."""
    if ray.is_initialized():
        raise InputError("engine flower-sim: Ray is running in this process already; end that first")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's, about its own future defaults
        ray.init(
            num_cpus=processes,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=256 << 20,
        )
