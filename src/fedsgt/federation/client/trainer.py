"""What a client's machine does for a run: register its slices, train on them, and keep nothing of others.

The server's word is taken for what to train, never for on what: the slices must be as they were registered.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from fedsgt.build.targets import make_recipe
from fedsgt.config import Config
from fedsgt.config.sections import Engine, Privacy
from fedsgt.data import Client
from fedsgt.data.sources.parquet import training_file
from fedsgt.engine.flower.messages import TrainingAnswer, TrainingOrder
from fedsgt.engine.flower.node import PoolNode
from fedsgt.engine.pool import Inline, Pool, Processes
from fedsgt.engine.worker import Setup
from fedsgt.errors import ShareableError
from fedsgt.federation.client.module_cache import MODULES, FolderModuleCache
from fedsgt.federation.client.node_app import CHANGED, LEAVING
from fedsgt.federation.client.records import WITHDRAWN, ClientRecords, Enrolment
from fedsgt.federation.client.withdraw import under_way
from fedsgt.federation.server.remote import SECTIONS
from fedsgt.federation.settings import ClientSettings
from fedsgt.stack.model import open_model

IDLE_SECONDS = 900.0


@dataclass(frozen=True)
class Session:
    """The client's part in one run, as long as neither its data nor the run's settings change."""

    signature: str
    run: Config
    client: Client
    pool: Pool
    node: PoolNode


class ClientTrainer:
    """One run at a time; what it holds in memory goes when the run ends, or when nothing comes for long."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings, self.own = settings, ClientRecords(settings)
        self.module_cache = FolderModuleCache(settings.folder / MODULES)
        self.turn = threading.RLock()
        self.session: Session | None = None
        self.idle = threading.Timer(IDLE_SECONDS, self.rest)

    def register(self, about: Mapping[str, Any]) -> dict[str, Any]:
        """What the server gets to know: fingerprints and counts, and what this machine would train with."""
        with self.turn, self._awake():
            session = self._session(about)
            model = open_model(session.run, about["labels"])
            for record in session.client.records:
                model.inputs.item(record.id, record.content)
            recipe = make_recipe(session.run, about["labels"], model)
            return {
                "fingerprints": session.client.fingerprints(),
                "records": session.client.slice_sizes(),
                "backbone": recipe.backbone,
                "profile": dict(recipe.profile),
            }

    def train(self, order: TrainingOrder) -> TrainingAnswer:
        """What it can: nothing on slices that are not as they were registered, or that are being deleted."""
        with self.turn, self._awake():
            if order.client != order.about["client"]:
                raise ShareableError(f"an order for client {order.client!r} came here")
            session = self._session(order.about)
            unfit = self._unfit(session, order)
            problems = {job.key: unfit[index] for job in order.jobs for index in job.slices if index in unfit}
            try:
                jobs = tuple(job for job in order.jobs if job.key not in problems)
                answer = session.node.train(replace(order, jobs=jobs))
            except BaseException:
                self._close()  # a worker may have ended
                raise
            return replace(answer, problems={**answer.problems, **problems})

    def _unfit(self, session: Session, order: TrainingOrder) -> dict[int, str]:
        """Slices that must not be trained on, and why."""
        marks, expected = session.client.fingerprints(), order.about["expect"]
        found = {i: CHANGED for i, mark in enumerate(marks) if mark != expected.get(str(i))}
        leaving = under_way(self.own, order.about["run"])
        for index, part in enumerate(session.client.cut()) if leaving else ():
            if any(self.own.hash_of(record.id) in leaving for record in part):
                found[index] = LEAVING
        return found

    def end(self) -> None:
        """The run is over: the backbone is what it was, and nothing of others' stays."""
        with self.turn:
            try:
                if self.session is not None:
                    self.session.node.check()
            finally:
                self.rest()

    def rest(self) -> None:
        """Drop all that is held for a run."""
        with self.turn:
            self._close()
            self.module_cache.keep(())

    @contextmanager
    def _awake(self) -> Iterator[None]:
        """However long it works, it rests only when nothing has come for long after that."""
        self.idle.cancel()
        try:
            yield
        finally:
            self.idle = threading.Timer(IDLE_SECONDS, self.rest)
            self.idle.daemon = True
            self.idle.start()

    def _close(self) -> None:
        if self.session is not None:
            self.session.pool.stop()
            self.session = None

    def _session(self, about: Mapping[str, Any]) -> Session:
        """The one that is open, if everything is as it was when it was opened."""
        signature = json.dumps([{**about, "expect": None}, self._stamps()], sort_keys=True)
        if self.session is None or self.session.signature != signature:
            self._close()
            self.session = self._opened(about, signature)
        return self.session

    def _opened(self, about: Mapping[str, Any], signature: str) -> Session:
        name, run_id = self.settings.name, about["run"] or None
        if about["client"] != name:
            raise ShareableError(
                f"the server takes this client for {about['client']!r}; its name is {name!r}"
            )
        if run_id is not None:
            self.own.enrol(Enrolment(run=run_id, name=name, slices=about["slices"], labels=about["labels"]))
        self._sweep()
        whole = self.own.client(name, about["slices"], about["labels"], run_id)
        client = whole.retained(about["erased"]["slices"], about["erased"]["records"])
        run = self._settings(about["settings"])
        setup = Setup.for_clients(run, about["labels"], [client], None, self.module_cache.get, self.own.cache)
        pool: Pool = Processes(setup, run.engine.workers) if run.engine.workers else Inline(setup)
        return Session(signature, run, client, pool, PoolNode(pool, self.module_cache))

    def _sweep(self) -> None:
        """What stands in the place of destroyed activations: nobody is left who might write them."""
        for place in list(self.own.cache.iterdir()) if self.own.cache.is_dir() else []:
            if place.is_file():
                place.unlink()

    def _settings(self, given: Mapping[str, Any]) -> Config:
        """The run's, as far as they shape a module, with this machine's place of the backbone."""
        strange = given.keys() - {*SECTIONS}
        if strange:
            raise ShareableError(
                f"the server sent settings that no client takes: {', '.join(sorted(strange))}"
            )
        run, own = Config.model_validate(given), self.settings.model.backbone
        self._check_privacy(run.privacy)
        model = run.model if own is None else run.model.model_copy(update={"backbone": own})
        return run.model_copy(update={"model": model, "engine": Engine(workers=self.settings.workers)})

    def _check_privacy(self, offered: Privacy) -> None:
        """Whether the run protects the client's records as much as it insists on."""
        wanted = self.settings.privacy
        if wanted.epsilon is None:
            return
        if offered.epsilon is None or offered.epsilon > wanted.epsilon or offered.delta > wanted.delta:
            raise ShareableError(
                f"it takes part only with privacy.epsilon of at most {wanted.epsilon:g} and privacy.delta of "
                f"at most {wanted.delta:g}; the run has {offered.epsilon} and {offered.delta:g}"
            )

    def _stamps(self) -> list[list[int]]:
        """Change whenever the client's records do."""
        paths = (self.settings.folder / WITHDRAWN, training_file(self.settings.data.source))
        found = [path.stat() for path in paths if path is not None and path.exists()]
        return [[entry.st_ino, entry.st_mtime_ns, entry.st_size] for entry in found]
