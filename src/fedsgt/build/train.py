"""Training a run from its configuration: make or continue its folder, build what its plan wants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from fedsgt.build.build import Build
from fedsgt.build.description import Description
from fedsgt.build.prepare import Prepared, prepare
from fedsgt.build.run import RunFolder, anchored, check_config, create_run
from fedsgt.build.targets import Target
from fedsgt.config import Run
from fedsgt.engine.inprocess import InProcess
from fedsgt.engine.task import Notify, Result, Task, Update
from fedsgt.engine.trackers import Tracker, check_trackers, open_trackers
from fedsgt.errors import InputError
from fedsgt.stack.backbone import BackboneChanged
from fedsgt.store import Manifest, open_objects

ENGINES = {"in-process": InProcess}


class Display(Protocol):
    """Shows a person how far it is."""

    def checking(self, share: float) -> None:
        """So much of the data is checked."""

    def begin(self, prepared: Prepared, missing: Sequence[Target]) -> None:
        """These modules are to be trained."""

    def trained(self, records: int) -> None:
        """A client has trained on so many records."""

    def round_done(self, target: Target, result: Result) -> None: ...

    def module_done(self, target: Target, manifest: Manifest) -> None: ...


def train(config: Run, path: Path, display: Display) -> RunFolder:
    """The run in this folder, trained; called again it goes on where it stopped, or finds nothing to do."""
    if config.engine.name not in ENGINES:
        known = ", ".join(ENGINES)
        raise InputError(f"engine.name: {config.engine.name!r} is not part of this version; use {known}")
    config = anchored(config)
    _check_elsewhere(config)
    existing = check_config(path, config)
    prepared = prepare(config, existing.description.grouping_made() if existing else None)
    folder = _continued(existing, prepared) if existing else _created(path, prepared, display)
    with folder.locked():
        folder.sweep()
        _build(folder, prepared, display)
    return folder


@contextmanager
def open_engine(folder: RunFolder, prepared: Prepared, notify: Notify | None = None) -> Iterator[InProcess]:
    """Workers over this run's data and modules; at the end they check that the backbone is untouched."""
    setup = prepared.setup(folder.modules, folder.cache)
    make = ENGINES[prepared.run.engine.name]
    with make(setup, prepared.stack, notify or (lambda task, update: None)) as engine:
        yield engine


def _check_elsewhere(config: Run) -> None:
    """What lies outside the run's folder is there, before that is made."""
    check_trackers(config.engine.trackers)
    url = config.store.url
    if url is not None:
        if url.startswith("memory:") and config.engine.workers:
            raise InputError("store.url: memory is not shared with worker processes; set engine.workers = 0")
        open_objects(url).names("modules/")


def _created(path: Path, prepared: Prepared, display: Display) -> RunFolder:
    """Nothing is written before everything is checked."""
    prepared.check_contents(display.checking)
    return create_run(path, prepared.run, Description.of(prepared))


def _continued(existing: RunFolder, prepared: Prepared) -> RunFolder:
    difference = existing.description.difference(Description.of(prepared))
    if difference is not None:
        raise InputError(
            f"{existing.path}: {difference} since this run was made; give another folder with -o"
        )
    return RunFolder(existing.path, prepared.run, existing.description)


def _build(folder: RunFolder, prepared: Prepared, display: Display) -> None:
    modules = folder.modules
    missing = [target for target in prepared.targets if modules.state(target.key) != "present"]
    display.begin(prepared, missing)
    if not missing:
        return
    training = prepared.run.training
    trackers = open_trackers(prepared.run.engine.trackers, folder.path)
    recorder = Recorder(trackers, {target.key: target for target in missing}, display)
    try:
        with open_engine(folder, prepared, recorder.updated) as engine:
            build = Build(prepared.recipe, modules, engine, training.rounds, training.seed, recorder)
            build.run(prepared.targets)
    except BackboneChanged:
        for key in recorder.done:
            modules.discard(key)
        raise
    finally:
        for tracker in trackers:
            tracker.close()


class Recorder:
    """Passes what happens on to the trackers and to the display."""

    def __init__(self, trackers: Sequence[Tracker], targets: dict[str, Target], display: Display) -> None:
        self.trackers, self.targets, self.display = trackers, targets, display
        self.done: list[str] = []

    def updated(self, task: Task, update: Update) -> None:
        name = f"{_name(self.targets[task.key])}/{update.client}"
        numbers = {"loss": update.loss, "records": update.records, "seconds": round(update.seconds, 4)}
        self._log("update", name, task.round, numbers, module=task.key, client=update.client)
        self.display.trained(update.records)

    def round_done(self, target: Target, result: Result) -> None:
        numbers = {"loss": result.loss, "seconds": round(result.seconds, 4)}
        self._log(
            "round", _name(target), result.round, numbers, module=target.key, groups=list(target.groups)
        )
        self.display.round_done(target, result)

    def module_done(self, target: Target, manifest: Manifest) -> None:
        self.done.append(target.key)
        about = {"module": target.key, "groups": list(target.groups), "sha256": manifest.sha256}
        self._log("module", _name(target), len(target.groups), manifest.metrics, **about)
        self.display.module_done(target, manifest)

    def _log(self, event: str, name: str, step: int, numbers: dict[str, float], **about: object) -> None:
        for tracker in self.trackers:
            tracker.log(event, name, step, numbers, **about)


def _name(target: Target) -> str:
    return "-".join(map(str, target.groups))
