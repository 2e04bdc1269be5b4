"""Access to a run's clients: what is known of their records, and an engine that trains on them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol

from fedsgt.build.prepare import Prepared
from fedsgt.config import Config
from fedsgt.engine.events import Listener, Note
from fedsgt.engine.flower.traffic import Traffic
from fedsgt.engine.inprocess import InProcess
from fedsgt.engine.rounds import RoundStarter
from fedsgt.engine.task import Engine
from fedsgt.errors import InputError
from fedsgt.runs.description import Description
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.kept_records import IN_RUN, kept_in
from fedsgt.runs.records import ClientData, load_clients
from fedsgt.runs.register import Registers
from fedsgt.runs.state import DeletedData
from fedsgt.runs.traffic import add_traffic
from fedsgt.words import counted

if TYPE_CHECKING:  # Flower is an optional package
    from fedsgt.engine.flower.orders import RunInfo


class ClientAccess(Protocol):
    """One way to reach a run's clients: on this machine, or over a network."""

    def load_clients(
        self,
        run: Config,
        known: Description | None = None,
        erased: Mapping[int, DeletedData] | None = None,
        registers: Registers | None = None,
        asked: Collection[int] | None = None,
    ) -> ClientData:
        """Return the clients as far as they are known here, without erased records.

        `registers` has the ids that the clients of a known run registered. With `asked`, clients of other
        numbers may be as they were described, without a look at their records.
        """

    def engine(self, folder: RunFolder, prepared: Prepared, tell: Listener) -> AbstractContextManager[Engine]:
        """Open an engine that trains on the clients' records and tells events to `tell`."""

    def all_take_part(self, run: Config) -> bool:
        """Whether every client must take part in every round that needs its records."""


class LocalClients:
    """Clients whose records are all on this machine, in the run's source."""

    def load_clients(
        self,
        run: Config,
        known: Description | None = None,
        erased: Mapping[int, DeletedData] | None = None,
        registers: Registers | None = None,
        asked: Collection[int] | None = None,
    ) -> ClientData:
        if run.data.partition == "remote":
            raise InputError(
                "data.partition is remote: the clients' records are not here; train this run with "
                "--engine flower, and engine.server set to the folder of fedsgt server"
            )
        if known is None and kept_in(run) is not None:
            raise InputError(
                f"data.source is {IN_RUN}, which stands for records that are given from Python: "
                "fedsgt.train(..., data=...)"
            )
        return load_clients(run, known, erased, registers=registers)

    @contextmanager
    def engine(self, folder: RunFolder, prepared: Prepared, tell: Listener) -> Iterator[Engine]:
        cache = folder.cache if prepared.keeps_activations else None
        setup, name = prepared.setup(folder.modules, cache), prepared.run.engine.name
        if name == "in-process":
            with InProcess(setup, prepared.model.stack, tell) as engine:
                yield engine
            return
        # Imported only where it is needed, because Flower is an optional package.
        from fedsgt.engine.flower.local import open_local, open_simulated

        starter = RoundStarter(prepared.model.stack, folder.modules.get, prepared.run.training)
        make, info = open_local, run_info(folder, prepared)
        if name == "flower-sim":
            make = open_simulated
            # Nothing else is seen for these seconds.
            tell(Note(f"starting Ray, for {counted(len(setup.slices), 'node')}; this takes some seconds"))
        with make(setup, starter, info, tell) as flower, counted_in(folder, flower.traffic):
            yield flower

    def all_take_part(self, run: Config) -> bool:
        # Over Flower, even on one machine, a round goes on without a client whose update is refused.
        return run.engine.name == "in-process" and run.engine.absent == "wait"


LOCAL = LocalClients()


@contextmanager
def counted_in(folder: RunFolder, traffic: Traffic) -> Iterator[None]:
    """Add an engine's traffic to the run's total, however the training ends."""
    try:
        yield
    finally:
        add_traffic(folder, traffic)


def run_info(folder: RunFolder, prepared: Prepared) -> RunInfo:
    """Return the facts of a run for the Flower engine: numbers of records, and modules that are there."""
    from fedsgt.engine.flower.orders import RunInfo

    sizes = {client.name: client.slice_sizes() for client in prepared.clients}
    return RunInfo(
        records=lambda client, slices: sum(sizes[client][index] for index in slices),
        hash_of=lambda key: folder.modules.manifest(key).sha256,
        present=folder.present,
        heads=prepared.run.heads,
    )
