"""Where a run is carried out: who holds its records, and what trains on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol

from fedsgt.build.prepare import Prepared
from fedsgt.config import Config
from fedsgt.engine.inprocess import InProcess
from fedsgt.engine.rounds import Server
from fedsgt.engine.task import Engine, Notify
from fedsgt.engine.traffic import Traffic
from fedsgt.errors import InputError
from fedsgt.runs.description import Description
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.records import Holdings, load_holdings
from fedsgt.runs.state import Erased
from fedsgt.runs.traffic import add_traffic

if TYPE_CHECKING:  # Flower is needed by those who use it only
    from fedsgt.engine.flower.transport import Fleet


class Teller(Protocol):
    """Whoever wants to know how the clients fare."""

    def trouble(self, client: str, what: str) -> None:
        """A client cannot or may not take part."""

    def note(self, text: str) -> None: ...


class Site(Protocol):
    """What `train` needs of the world around it."""

    def holdings(
        self, run: Config, known: Description | None = None, erased: Mapping[int, Erased] | None = None
    ) -> Holdings: ...

    def engine(
        self, folder: RunFolder, prepared: Prepared, notify: Notify, teller: Teller
    ) -> AbstractContextManager[Engine]: ...


class Here:
    """All clients' records are on this machine, in the run's source."""

    def holdings(
        self, run: Config, known: Description | None = None, erased: Mapping[int, Erased] | None = None
    ) -> Holdings:
        if run.data.partition == "remote":
            raise InputError(
                "data.partition is remote: the clients' records are not here; train this run with "
                "--engine flower, and engine.server set to the folder of fedsgt server"
            )
        return load_holdings(run, known, erased)

    @contextmanager
    def engine(
        self, folder: RunFolder, prepared: Prepared, notify: Notify, teller: Teller
    ) -> Iterator[Engine]:
        setup, name = prepared.setup(folder.modules, folder.cache), prepared.run.engine.name
        if name == "in-process":
            with InProcess(setup, prepared.model.stack, notify) as engine:
                yield engine
            return
        from fedsgt.engine.flower.local import open_local, open_simulated

        server = Server(prepared.model.stack, folder.modules.get, prepared.run.training)
        make, fleet = open_local, fleet_of(folder, prepared)
        if name == "flower-sim":
            make = open_simulated
            teller.note(f"starting Ray, for {len(setup.slices)} nodes; this takes some seconds")
        with make(setup, server, fleet, notify, teller.trouble) as flower, counted_in(folder, flower.traffic):
            yield flower


HERE = Here()


class Unheard:
    """For builds without a display."""

    def trouble(self, client: str, what: str) -> None: ...

    def note(self, text: str) -> None: ...


def open_engine(
    folder: RunFolder, prepared: Prepared, notify: Notify = lambda task, update: None, site: Site = HERE
) -> AbstractContextManager[Engine]:
    """What trains the run at this site, for a build that nobody watches."""
    return site.engine(folder, prepared, notify, Unheard())


@contextmanager
def counted_in(folder: RunFolder, traffic: Traffic) -> Iterator[None]:
    """However the training ends, what it has cost is added up."""
    try:
        yield
    finally:
        add_traffic(folder, traffic)


def fleet_of(folder: RunFolder, prepared: Prepared) -> Fleet:
    """What the Flower engine knows of a run: numbers of records, and which modules are there."""
    from fedsgt.engine.flower.transport import Fleet

    sizes = {client.name: client.slice_sizes() for client in prepared.clients}
    return Fleet(
        records=lambda client, slices: sum(sizes[client][index] for index in slices),
        hash_of=lambda key: folder.modules.manifest(key).sha256,
        present=folder.present,
    )
