"""Training a run from its configuration: make or continue its folder, build what its plan wants."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from fedsgt.build.build import Build, Deletions
from fedsgt.build.client_access import LOCAL, ClientAccess
from fedsgt.build.participation import check_participation
from fedsgt.build.prepare import Prepared, describe, prepare_held
from fedsgt.build.targets import Target
from fedsgt.config import Config
from fedsgt.engine.events import ClientUpdated, DataChecked, Event, EventStream, Listener, WorkBegun
from fedsgt.engine.trackers import check_trackers, open_trackers
from fedsgt.errors import BackboneChanged, InputError
from fedsgt.files.optional import check_flower
from fedsgt.ledger.kinds import MODULES_CHANGED, Kind
from fedsgt.runs.folder import RunFolder, anchored, check_config, create_run, read_description
from fedsgt.runs.state import Live
from fedsgt.store import open_objects

Finish: TypeAlias = Callable[[RunFolder], object]


def train(
    config: Config, path: Path, tell: Listener, finish: Finish | None = None, access: ClientAccess = LOCAL
) -> RunFolder:
    """The run in this folder, trained; called again it goes on where it stopped, or finds nothing to do.

    `finish` completes deletions that were cut short; without it those are an error.
    """
    config = anchored(config)
    _check_elsewhere(config)
    existing = check_config(path, config)
    if existing is None:
        prepared = prepare_held(config, access.holdings(config))
        folder = _created(path, prepared, tell)
        with folder.locked():
            _build(folder, prepared, tell, access)
        return folder
    folder = RunFolder(path, config, existing.description)
    with folder.locked():
        folder.sweep()
        prepared = bring_up_to_date(folder, finish, access)
        _build(folder, prepared, tell, access)
    return RunFolder(path, config, read_description(path))


def bring_up_to_date(
    folder: RunFolder, finish: Finish | None = None, access: ClientAccess = LOCAL
) -> Prepared:
    """All that a build of this run needs, with every deletion so far in the run's description.

    To be called by who has locked the run. Groups that were hit get new fingerprints, so the modules that
    depend on them get new keys; all others keep theirs, and are not trained again.
    """
    while True:
        live = finished(folder, finish)
        known = live.description
        held = access.holdings(folder.config, known, live.erased())
        prepared = prepare_held(folder.config, held, known)
        fresh = describe(prepared, known, live.position if live.dead else known.as_of)
        difference = known.difference(fresh, live.dead)
        with folder.publishing() as now:
            if now.last_request != live.last_request:
                continue  # it is already out of date
            if difference is not None:
                raise InputError(
                    f"{folder.path}: {difference} since this run was made; give another folder with -o"
                )
            if live.dead:
                folder.describe_anew(fresh)
            return prepared


def finished(folder: RunFolder, finish: Finish | None) -> Live:
    """What is live once the bytes of every request are destroyed: a new description knows them no more."""
    if finish is not None:
        finish(folder)
    live = folder.live()
    left = [request.position for request in live.requests if request.position not in live.finished]
    if left and finish is None:
        raise InputError(
            f"{folder.path}: the request at {left[0]} is not completed; fedsgt retrain does that"
        )
    return finished(folder, finish) if left else live


def _check_elsewhere(config: Config) -> None:
    """What lies outside the run's folder is there, before that is made."""
    check_trackers(config.engine.trackers)
    if config.engine.name != "in-process":
        check_flower()
    url = config.store.url
    if url is not None:
        if url.startswith("memory:") and config.engine.workers:
            raise InputError("store.url: memory is not shared with worker processes; set engine.workers = 0")
        open_objects(url).names("modules/")


def _created(path: Path, prepared: Prepared, tell: Listener) -> RunFolder:
    """Nothing is written before everything is checked."""
    prepared.check_contents(lambda share: tell(DataChecked(share)))
    return create_run(path, prepared.run, describe(prepared))


def _build(folder: RunFolder, prepared: Prepared, tell: Listener, access: ClientAccess) -> None:
    present = {target.key for target in prepared.targets if folder.modules.state(target.key) == "present"}
    missing = [target for target in prepared.targets if target.key not in present]
    tell(work_of(prepared, missing))
    if missing:
        with open_build(folder, prepared, tell, access) as build:
            if present:  # retraining: the sequence that lacks least serves again first
                build.run(soonest(prepared, present))
                tell_built(folder)
            build.run(prepared.targets)
    if access.all_take_part(folder.config):
        check_participation(folder)
    if missing or not _told(folder):  # it may have been stopped right before
        tell_built(folder)


def work_of(prepared: Prepared, missing: Sequence[Target]) -> WorkBegun:
    rounds, lacking = prepared.run.training.rounds, {target.groups for target in missing}
    sequences = tuple(tuple(sequence) for sequence in prepared.plan.sequences)
    return WorkBegun(
        modules=len(missing),
        rounds=rounds,
        records=sum(prepared.records(target) for target in missing) * rounds,
        sequences=sequences,
        finished=tuple(sequence for sequence in sequences if sequence not in lacking),
    )


def soonest(prepared: Prepared, present: Collection[str]) -> list[Target]:
    """The targets of the sequence with the fewest modules to train, of those that lack any."""
    by_prefix = {target.groups: target for target in prepared.targets}
    sequences = [
        [by_prefix[order[:depth]] for depth in range(1, len(order) + 1)] for order in prepared.plan.sequences
    ]
    lacking = [(sum(target.key not in present for target in path), path) for path in sequences]
    return min((entry for entry in lacking if entry[0]), key=lambda entry: entry[0])[1]


def _told(folder: RunFolder) -> bool:
    """Whether the ledger has it that all which is there was built."""
    changes = [entry for entry in folder.ledger.entries() if entry.kind in MODULES_CHANGED]
    last = changes[-1] if changes else None
    return last is not None and last.kind == Kind.BUILT and last.body["modules"] == len(folder.present())


def tell_built(folder: RunFolder) -> None:
    """Whoever serves this run looks for new modules."""
    with folder.ledger.writing() as writer:
        writer.append(Kind.BUILT, {"modules": len(folder.present())})


@contextmanager
def open_build(
    folder: RunFolder, prepared: Prepared, tell: Listener, access: ClientAccess = LOCAL
) -> Iterator[Build]:
    """A build into the run's store that deletions can reach, with its engine and its trackers."""
    training, modules, deletions = prepared.run.training, folder.modules, RunDeletions(folder)
    with open_trackers(prepared.run.engine.trackers, folder.path) as record:
        events = EventStream(record_live(record, deletions), without_update_losses(tell))
        trained: list[str] = []
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
            # Nobody knows since when the frozen weights were others: no module of this build can be kept.
            for key in trained:
                modules.discard(key)
            raise


class RunDeletions:
    """The deletions that the run's ledger has."""

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

    A loss is made of the data. It is written while no deletion destroys, so that the next one finds it; the
    build tells rounds and modules at such a time already.
    """

    def listen(event: Event) -> None:
        if not isinstance(event, ClientUpdated):
            record(event)
            return
        with deletions.publishing() as dead:
            if dead.isdisjoint(event.groups):
                record(event)

    return listen


def without_update_losses(listener: Listener) -> Listener:
    """Return a listener that passes on updates without their loss.

    It may be told of a dead module's update, and what it writes lies where no deletion looks for it.
    """

    def listen(event: Event) -> None:
        listener(replace(event, loss=None) if isinstance(event, ClientUpdated) else event)

    return listen
