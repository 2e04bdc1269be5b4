"""The Flower engine on this machine alone: over nodes in this process, or simulated on Ray."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from flwr.serverapp import Grid

from fedsgt.engine.events import Listener
from fedsgt.engine.flower.engine import FlowerEngine
from fedsgt.engine.flower.local_grid import LocalGrid
from fedsgt.engine.flower.node import PoolNode, SharedStore, make_client_app
from fedsgt.engine.flower.transport import Connection, RunInfo
from fedsgt.engine.pool import Inline, Pool, Processes
from fedsgt.engine.rounds import Server
from fedsgt.engine.worker import Setup

EACH = 16  # messages under way for each process of a simulation


def nodes_of(grid: Grid, clients: Mapping[str, object]) -> dict[str, Connection]:
    """Which node plays which client; one is as good as another."""
    return dict(zip(sorted(clients), map(Connection, sorted(grid.get_node_ids())), strict=True))


@contextmanager
def open_local(setup: Setup, server: Server, info: RunInfo, tell: Listener) -> Iterator[FlowerEngine]:
    """Messages go to nodes in this process, which share its workers."""
    workers = setup.run.engine.workers
    pool: Pool = Processes(setup, workers) if workers else Inline(setup)
    node = PoolNode(pool, SharedStore())
    grid = LocalGrid(make_client_app(lambda context: node), len(setup.slices))
    try:
        nodes = nodes_of(grid, setup.slices)
        with FlowerEngine(grid, lambda: nodes, server, info, setup.run.engine, tell) as engine:
            yield engine
    finally:
        pool.stop()


@contextmanager
def open_simulated(setup: Setup, server: Server, info: RunInfo, tell: Listener) -> Iterator[FlowerEngine]:
    """Messages go to nodes on Ray: so many processes as the engine has workers."""
    from fedsgt.engine.flower.simulation import simulated

    processes = max(1, setup.run.engine.workers)
    with simulated(setup, len(setup.slices), processes) as grid:
        nodes = nodes_of(grid, setup.slices)
        with FlowerEngine(
            grid,
            lambda: nodes,
            server,
            info,
            setup.run.engine,
            tell,
            pause=0.05,
            at_once=EACH * processes,
        ) as engine:
            yield engine
