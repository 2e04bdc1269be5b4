"""Part of a client in a run: it registers its slices, trains on them, and keeps nothing of other clients.

The server decides what to train, but not on which records: slices must be as the client registered them. The
same holds for statistics, which the client sends only if its settings let it, and as its pins allow.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from fedsgt.build.targets import make_recipe
from fedsgt.config import Config
from fedsgt.config.sections import Engine, Privacy
from fedsgt.data import Client
from fedsgt.data.slices import are_slices
from fedsgt.data.sources.files import stamps_of, training_files
from fedsgt.engine.flower.messages import TrainingAnswer, TrainingOrder
from fedsgt.engine.flower.node import PoolNode
from fedsgt.engine.flower.statistic_messages import StatisticAnswer, StatisticOrder
from fedsgt.engine.pool import Inline, Pool, Processes
from fedsgt.engine.worker import Setup
from fedsgt.errors import ShareableError
from fedsgt.federation.client.module_cache import MODULES, FolderModuleCache
from fedsgt.federation.client.node_app import CHANGED, LEAVING, NOT_ITS_SLICES, PARTIAL
from fedsgt.federation.client.pins import FEW, LEAST_RECORDS, Pins, keep_pins, next_pins, sampled
from fedsgt.federation.client.records import WITHDRAWN, ClientRecords, Enrolment
from fedsgt.federation.client.withdraw import under_way
from fedsgt.federation.settings import SENT_SECTIONS, ClientSettings
from fedsgt.stack.model import open_model

IDLE_SECONDS = 900.0  # seconds, longer than any pause between the orders of a training


@dataclass(frozen=True)
class Session:
    """Workers and data for one run, used until the client's data or the run's settings change."""

    signature: str
    run: Config
    whole: Client
    """The client without what it has withdrawn itself."""
    client: Client
    """The client without what the server says was deleted, either."""
    pool: Pool
    node: PoolNode


class ClientTrainer:
    """Trains for one run at a time, and frees its memory when the run ends or nothing comes for long."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings, self.own = settings, ClientRecords(settings)
        self.module_cache = FolderModuleCache(settings.folder / MODULES)
        # The timer below rests the trainer from a thread of its own, never in the middle of an order.
        self.turn = threading.RLock()
        self.session: Session | None = None
        self.idle = threading.Timer(IDLE_SECONDS, self.rest)

    def register(self, about: Mapping[str, Any]) -> dict[str, Any]:
        """Return the client's registration: fingerprints, counts, backbone and execution profile."""
        with self.turn, self._awake():
            session = self._session(about)
            model = open_model(session.run, about["labels"])
            # Every record is prepared once, so that an unreadable one is found now and not after hours.
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
        """Train the jobs of an order, except on slices that changed or are being deleted."""
        with self.turn, self._awake():
            if order.client != order.about["client"]:
                raise ShareableError(f"an order for client {order.client!r} came here")
            session = self._session(order.about)
            unfit = self._unfit(session, order.about)
            count = session.client.slices
            problems = {
                job.key: problem for job in order.jobs if (problem := _problem(job.slices, count, unfit))
            }
            try:
                jobs = tuple(job for job in order.jobs if job.key not in problems)
                answer = session.node.train(replace(order, jobs=jobs))
            except BaseException:
                self._close()  # the session is closed, since a dead worker would fail every later order of it
                raise
            return replace(answer, problems={**answer.problems, **problems})

    def statistics(self, order: StatisticOrder) -> StatisticAnswer:
        """Make the statistics of an order, but none of slices that changed or are being deleted."""
        with self.turn, self._awake():
            if order.client != order.about["client"]:
                raise ShareableError(f"an order for client {order.client!r} came here")
            session = self._session(order.about)
            self.module_cache.keep(order.keep)  # also if no statistic is made
            declined = self._declined(session)
            if declined:
                return StatisticAnswer(declined=declined)
            unfit = self._unfit(session, order.about)
            problems = {
                number: problem
                for number, asked in enumerate(order.questions)
                if (problem := _statistic_problem(asked.slices, session.client.slices, unfit))
            }
            fit = [number for number in range(len(order.questions)) if number not in problems]
            pins = self._pins(session, order.about) if fit else None
            try:
                questions = tuple(order.questions[number] for number in fit)
                answer = session.node.statistics(replace(order, questions=questions))
            except BaseException:
                self._close()  # as in `train`
                raise
            # They are on disk before a statistic leaves, so that no stop in between makes the client forget.
            if pins is not None and answer.statistics:
                keep_pins(self.own, order.about["run"], pins)
            made = {fit[number]: found for number, found in answer.statistics.items()}
            failed = {fit[number]: problem for number, problem in answer.problems.items()}
            return replace(answer, statistics=made, problems=failed | problems)

    def _declined(self, session: Session) -> str:
        """Return why the client sends no statistics in this run; empty if it does."""
        run, client = session.run, session.client
        if not self.settings.heads:
            return "its owner does not want it to (heads = false in its settings)"
        # A statistic has no noise, so it would undo what differential privacy promises.
        if run.privacy.epsilon is not None:
            return "the run has privacy.epsilon, and statistics have no noise"
        if len(sampled(client, client.records, run.heads.share)) < LEAST_RECORDS:
            return FEW
        return ""

    def _pins(self, session: Session, about: Mapping[str, Any]) -> Pins:
        """Return the run's pins after the statistics that are asked for; raise if they must not be made."""
        erased, leaving = about["erased"]["slices"], under_way(self.own, about["run"])
        return next_pins(
            self.own, about["run"], session.run.heads, session.whole, session.client, erased, leaving
        )

    def _unfit(self, session: Session, about: Mapping[str, Any]) -> dict[int, str]:
        """Return the slices that must not be used, with the reason."""
        fingerprints, expected = session.client.fingerprints(), about["expect"]
        found = {
            i: CHANGED for i, fingerprint in enumerate(fingerprints) if fingerprint != expected.get(str(i))
        }
        # A record whose deletion is requested must not be learnt from while the server has not answered.
        leaving = under_way(self.own, about["run"])
        for index, part in enumerate(session.client.cut()) if leaving else ():
            if any(self.own.hash_of(record.id) in leaving for record in part):
                found[index] = LEAVING
        return found

    def end(self) -> None:
        """End a run: check the backbone, and destroy the modules of others."""
        with self.turn:
            try:
                if self.session is not None:
                    self.session.node.check()
            finally:
                self.rest()

    def rest(self) -> None:
        """Stop the workers and destroy the modules that were sent."""
        with self.turn:
            self._close()
            self.module_cache.keep(())

    @contextmanager
    def _awake(self) -> Iterator[None]:
        """Postpone resting until nothing has come for `IDLE_SECONDS` after this work."""
        self.idle.cancel()
        try:
            yield
        finally:
            self.idle = threading.Timer(IDLE_SECONDS, self.rest)
            # A daemon thread does not keep the process alive at its end.
            self.idle.daemon = True
            self.idle.start()

    def _close(self) -> None:
        if self.session is not None:
            self.session.pool.stop()
            self.session = None

    def _session(self, about: Mapping[str, Any]) -> Session:
        """Return the open session, or a new one if records or settings have changed."""
        # The expected fingerprints are left out: they are compared with each order, and change no worker.
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
        # The enrolment comes before any training: a withdrawal must reach every run that may have learnt.
        if run_id is not None:
            self.own.enrol(Enrolment(run=run_id, name=name, slices=about["slices"], labels=about["labels"]))
        self._sweep()
        whole = self.own.client(name, about["slices"], about["labels"], run_id)
        client = whole.retained(about["erased"]["slices"], about["erased"]["records"])
        run = self._settings(about["settings"])
        setup = Setup.for_clients(run, about["labels"], [client], None, self.module_cache.get, self.own.cache)
        pool: Pool = Processes(setup, run.engine.workers) if run.engine.workers else Inline(setup)
        return Session(signature, run, whole, client, pool, PoolNode(pool, self.module_cache))

    def _sweep(self) -> None:
        """Remove the empty files that mark destroyed activations."""
        # The files keep a worker that still runs from writing activations again; here no worker is left.
        for place in list(self.own.cache.iterdir()) if self.own.cache.is_dir() else []:
            if place.is_file():
                place.unlink()

    def _settings(self, given: Mapping[str, Any]) -> Config:
        """Return the run's settings that shape a module, with this machine's path of the backbone."""
        strange = given.keys() - {*SENT_SECTIONS}
        if strange:
            raise ShareableError(
                f"the server sent settings that no client takes: {', '.join(sorted(strange))}"
            )
        run, own = Config.model_validate(given), self.settings.model.backbone
        self._check_privacy(run.privacy)
        model = run.model if own is None else run.model.model_copy(update={"backbone": own})
        return run.model_copy(update={"model": model, "engine": Engine(workers=self.settings.workers)})

    def _check_privacy(self, offered: Privacy) -> None:
        """Raise if the run protects the client's records less than the client insists on."""
        wanted = self.settings.privacy
        if wanted.epsilon is None:
            return
        if offered.epsilon is None or offered.epsilon > wanted.epsilon or offered.delta > wanted.delta:
            raise ShareableError(
                f"it takes part only with privacy.epsilon of at most {wanted.epsilon:g} and privacy.delta of "
                f"at most {wanted.delta:g}; the run has {offered.epsilon} and {offered.delta:g}"
            )

    def _stamps(self) -> list[list[int]]:
        """Return the stamps of the files that decide which records the client has."""
        paths = (self.settings.folder / WITHDRAWN, training_files(self.settings.data.source))
        found = [stamps_of(path) for path in paths if path is not None and path.exists()]
        return [list(stamp) for stamps in found for stamp in stamps]


def _problem(slices: Sequence[int], count: int, unfit: Mapping[int, str]) -> str:
    """Return why these of the client's `count` slices must not be used; empty if nothing is wrong."""
    if not are_slices(slices, count):
        return NOT_ITS_SLICES
    return next((unfit[index] for index in slices if index in unfit), "")


def _statistic_problem(slices: Sequence[int], count: int, unfit: Mapping[int, str]) -> str:
    """Return why a statistic of these slices must not be made; empty if nothing is wrong."""
    # All slices, each once: the difference from another choice would show the records of a single slice.
    if not are_slices(slices, count) or tuple(slices) != tuple(range(count)):
        return PARTIAL
    return _problem(slices, count, unfit)
