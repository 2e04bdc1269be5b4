"""Training a run from its configuration: make or continue its folder, build what its plan wants."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from fedsgt.build.build import Build, Gate
from fedsgt.build.display import Display, Work
from fedsgt.build.participation import check_participation
from fedsgt.build.prepare import Prepared, describe, prepare_held
from fedsgt.build.site import HERE, Site
from fedsgt.build.targets import Target
from fedsgt.config import Config
from fedsgt.engine.task import Result, Task, Update
from fedsgt.engine.trackers import Tracker, check_trackers, open_trackers
from fedsgt.errors import BackboneChanged, InputError
from fedsgt.files.optional import check_flower
from fedsgt.ledger.kinds import MODULES_CHANGED, Kind
from fedsgt.runs.folder import RunFolder, anchored, check_config, create_run, read_description
from fedsgt.runs.state import Live
from fedsgt.store import Manifest, open_objects

Finish: TypeAlias = Callable[[RunFolder], object]


def train(
    config: Config, path: Path, display: Display, finish: Finish | None = None, site: Site = HERE
) -> RunFolder:
    """The run in this folder, trained; called again it goes on where it stopped, or finds nothing to do.

    `finish` completes deletions that were cut short; without it those are an error.
    """
    config = anchored(config)
    _check_elsewhere(config)
    existing = check_config(path, config)
    if existing is None:
        prepared = prepare_held(config, site.holdings(config))
        folder = _created(path, prepared, display)
        with folder.locked():
            _build(folder, prepared, display, site)
        return folder
    folder = RunFolder(path, config, existing.description)
    with folder.locked():
        folder.sweep()
        prepared = bring_up_to_date(folder, finish, site)
        _build(folder, prepared, display, site)
    return RunFolder(path, config, read_description(path))


def bring_up_to_date(folder: RunFolder, finish: Finish | None = None, site: Site = HERE) -> Prepared:
    """All that a build of this run needs, with every deletion so far in the run's description.

    To be called by who has locked the run. Groups that were hit get new fingerprints, so the modules that
    depend on them get new keys; all others keep theirs, and are not trained again.
    """
    while True:
        live = finished(folder, finish)
        known = live.description
        held = site.holdings(folder.config, known, live.erased())
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


def _created(path: Path, prepared: Prepared, display: Display) -> RunFolder:
    """Nothing is written before everything is checked."""
    prepared.check_contents(display.checking)
    return create_run(path, prepared.run, describe(prepared))


def _build(folder: RunFolder, prepared: Prepared, display: Display, site: Site) -> None:
    present = {target.key for target in prepared.targets if folder.modules.state(target.key) == "present"}
    missing = [target for target in prepared.targets if target.key not in present]
    display.begin(work_of(prepared, missing))
    if missing:
        with open_build(folder, prepared, missing, display, site) as build:
            if present:  # retraining: the sequence that lacks least serves again first
                build.run(soonest(prepared, present))
                tell_built(folder)
            build.run(prepared.targets)
    if _all_take_part(folder.config, site):
        check_participation(folder)
    if missing or not _told(folder):  # it may have been stopped right before
        tell_built(folder)


def _all_take_part(config: Config, site: Site) -> bool:
    """Over a network, also a simulated one, a client whose update cannot be used is left out, and named."""
    return site is HERE and config.engine.name == "in-process" and config.engine.absent == "wait"


def work_of(prepared: Prepared, missing: Sequence[Target]) -> Work:
    rounds, lacking = prepared.run.training.rounds, {target.groups for target in missing}
    sequences = [tuple(sequence) for sequence in prepared.plan.sequences]
    return Work(
        modules=len(missing),
        rounds=rounds,
        records=sum(prepared.records(target) for target in missing) * rounds,
        sequences=sequences,
        finished=[sequence for sequence in sequences if sequence not in lacking],
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
    folder: RunFolder, prepared: Prepared, missing: Sequence[Target], display: Display, site: Site = HERE
) -> Iterator[Build]:
    """A build into the run's store that deletions can reach, with its engine and its trackers."""
    training, modules = prepared.run.training, folder.modules
    trackers = open_trackers(prepared.run.engine.trackers, folder.path)
    gate = RunGate(folder)
    recorder = Recorder(trackers, {target.key: target for target in missing}, display, gate)
    try:
        with site.engine(folder, prepared, recorder.updated, recorder) as engine:
            yield Build(prepared.recipe, modules, engine, training.rounds, training.seed, recorder, gate)
    except BackboneChanged:
        for key in recorder.done:
            modules.discard(key)
        raise
    finally:
        for tracker in trackers:
            tracker.close()


class RunGate:
    """What the run's ledger says of its groups."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    def dead(self) -> frozenset[int]:
        return self.folder.live().dead

    @contextmanager
    def publishing(self) -> Iterator[frozenset[int]]:
        with self.folder.publishing() as live:
            yield live.dead


class Recorder:
    """Passes what happens on to the trackers and to the display."""

    def __init__(
        self, trackers: Sequence[Tracker], targets: dict[str, Target], display: Display, gate: Gate
    ) -> None:
        self.trackers, self.targets, self.display, self.gate = trackers, targets, display, gate
        self.done: list[str] = []

    def updated(self, task: Task, update: Update) -> None:
        target = self.targets[task.key]
        numbers = {"loss": update.loss, "records": update.records, "seconds": round(update.seconds, 4)}
        with self.gate.publishing() as dead:  # a loss, too, is made of the data
            if dead.isdisjoint(target.groups):
                name = f"{_name(target)}/{update.client}"
                self._log("update", name, task.round, numbers, module=task.key, client=update.client)
        self.display.trained(update.records)

    def note(self, text: str) -> None:
        self.display.note(text)

    def trouble(self, client: str, what: str) -> None:
        for tracker in self.trackers:
            tracker.log("trouble", client, 0, {}, client=client, what=what)
        self.display.trouble(client, what)

    def round_done(self, target: Target, result: Result) -> None:
        numbers = {"loss": result.loss, "seconds": round(result.seconds, 4)}
        self._log(
            "round", _name(target), result.round, numbers, module=target.key, groups=list(target.groups)
        )
        self.display.round_done(target.groups, result.round, result.loss)

    def module_done(self, target: Target, manifest: Manifest) -> None:
        self.done.append(target.key)
        about = {"module": target.key, "groups": list(target.groups), "sha256": manifest.sha256}
        self._log("module", _name(target), len(target.groups), manifest.metrics, **about)
        self.display.module_done(target.groups, manifest.metrics["loss"])

    def _log(self, event: str, name: str, step: int, numbers: dict[str, float], **about: object) -> None:
        for tracker in self.trackers:
            tracker.log(event, name, step, numbers, **about)


def _name(target: Target) -> str:
    return "-".join(map(str, target.groups))
