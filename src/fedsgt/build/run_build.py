"""A build into a run's folder: with its engine, its trackers, and the deletions that can reach it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from fedsgt.build.build import Build, Deletions
from fedsgt.build.client_access import LOCAL, ClientAccess
from fedsgt.build.prepare import Prepared
from fedsgt.engine.events import ClientUpdated, Event, EventStream, Listener
from fedsgt.engine.trackers import open_trackers
from fedsgt.errors import BackboneChanged
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.statistics import discard_all


@contextmanager
def open_build(
    folder: RunFolder, prepared: Prepared, tell: Listener, access: ClientAccess = LOCAL
) -> Iterator[Build]:
    """Yield a build into the run's store, which tells its events to the run's trackers and to `tell`."""
    training, modules, deletions = prepared.run.training, folder.modules, RunDeletions(folder)
    trained: list[str] = []
    with open_trackers(prepared.run.engine.trackers, folder.path) as record:
        # Trackers come before `tell`: whatever people are shown is on disk already.
        events = EventStream(record_live(record, deletions), without_update_losses(tell))
        try:
            with access.engine(folder, prepared, events) as engine:
                yield Build(
                    prepared.recipe,
                    modules,
                    engine,
                    training.rounds,
                    training.seed,
                    events,
                    deletions,
                    trained=trained,
                )
        except BackboneChanged:
            # Nobody knows since when the frozen weights were others, so no module of this build is kept.
            for key in trained:
                modules.discard(key)
            discard_all(folder)  # statistics may have been made with them too
            raise


class RunDeletions:
    """Deletions as the run's ledger has them."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    def dead(self) -> frozenset[int]:
        return self.folder.live().dead

    @contextmanager
    def publishing(self) -> Iterator[frozenset[int]]:
        with self.folder.publishing() as live:
            yield live.dead


def record_live(record: Listener, deletions: Deletions) -> Listener:
    """Return a listener that passes on no update of a module that a deletion has hit.

    A loss is computed from the records. It is recorded while destruction is held off, so that the next
    deletion finds and destroys it. The build tells rounds and modules at such a time already.
    """

    def listen(event: Event) -> None:
        if not isinstance(event, ClientUpdated):
            record(event)
            return
        # Under the lock: a deletion cannot come between the look at what is dead and the writing.
        with deletions.publishing() as dead:
            if dead.isdisjoint(event.groups):
                record(event)

    return listen


def without_update_losses(listener: Listener) -> Listener:
    """Return a listener that passes on updates without their loss.

    It may hear of a dead module's update, and no deletion looks for what it writes.
    """

    def listen(event: Event) -> None:
        listener(replace(event, loss=None) if isinstance(event, ClientUpdated) else event)

    return listen
