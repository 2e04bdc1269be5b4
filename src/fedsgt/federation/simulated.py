"""Clients simulated by `flwr run`: their records are on this machine, in the run's source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flwr.serverapp import Grid

from fedsgt.build.prepare import Prepared
from fedsgt.build.site import Here, Teller, counted_in, fleet_of
from fedsgt.engine.flower.engine import FlowerEngine
from fedsgt.engine.flower.local import nodes_of
from fedsgt.engine.flower.simulation import share_setup
from fedsgt.engine.rounds import Server
from fedsgt.engine.task import Notify
from fedsgt.errors import InputError
from fedsgt.runs.folder import RunFolder

AT_ONCE = 64  # messages under way; Flower decides on how many processes


class SimulatedClients(Here):
    """Over the grid of a simulation that Flower has started."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid

    @contextmanager
    def engine(
        self, folder: RunFolder, prepared: Prepared, notify: Notify, teller: Teller
    ) -> Iterator[FlowerEngine]:
        setup = prepared.setup(folder.modules, folder.cache)
        there, wanted = len(list(self.grid.get_node_ids())), len(setup.slices)
        if there != wanted:
            raise InputError(
                f"the simulation has {there} nodes for the run's {wanted} clients; give as many with "
                f"--federation-config num-supernodes={wanted}"
            )
        holder = share_setup(setup)
        nodes = nodes_of(self.grid, setup.slices)
        server = Server(prepared.model.stack, folder.modules.get, prepared.run.training)
        fleet = fleet_of(folder, prepared)
        with (
            FlowerEngine(
                self.grid,
                lambda: nodes,
                server,
                fleet,
                prepared.run.engine,
                notify,
                teller.trouble,
                at_once=AT_ONCE,
            ) as engine,
            counted_in(folder, engine.traffic),
        ):
            yield engine
        del holder
