"""Prediction with live modules only: every answer is checked against the ledger before it is returned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsgt.data import Content, Record, Slice
from fedsgt.errors import InputError
from fedsgt.files.tensors import Tensors
from fedsgt.plans import FLOOR, MERGED, STRATEGIES, Choice
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.runs.health import ModuleHealth, RunHealth, module_health, problem_lines, reason_of
from fedsgt.runs.records_left import records_left
from fedsgt.runs.state import Live
from fedsgt.serving.answer import Chain, agreement, answer
from fedsgt.serving.heads import (
    NO_HEADS,
    BackgroundSolver,
    DamagedStatistic,
    Heads,
    HeadSolver,
    solved_with,
    solves,
)
from fedsgt.serving.model import check_model
from fedsgt.store import StoreError

if TYPE_CHECKING:  # torch must be imported under the execution profile
    from fedsgt.engine.worker import Worker

Floats: TypeAlias = NDArray[np.float64]


class Exhausted(InputError):
    """No module is live, no head can be solved, and the bare backbone may not answer (definition 7)."""


class UnreadableModule(Exception):
    """A live module could not be read: it is damaged, or a deletion has just destroyed it."""

    def __init__(self, key: str, cause: StoreError) -> None:
        super().__init__(str(cause))
        self.key = key
        self.reason = reason_of(cause, key)


@dataclass(frozen=True)
class ServingSequence:
    """A sequence that took part in a prediction."""

    index: int
    groups: tuple[int, ...]
    """Its live prefix."""
    weight: float
    keys: tuple[str, ...]
    """Keys of the modules along the prefix, root first."""
    solved: bool = False
    """Whether its head was solved from statistics; otherwise that of its last module answered."""


@dataclass(frozen=True)
class Predictions:
    """Class probabilities of some records, and the modules they were computed with."""

    ids: tuple[str, ...] = field(repr=False)
    probabilities: Floats = field(repr=False)
    """A row for each record, a column for each label."""
    position: int
    """Ledger position at which every module that was used was live."""
    strategy: str
    sequences: tuple[ServingSequence, ...]
    problems: tuple[ModuleHealth, ...]
    """Modules that are missing, damaged or not destroyed; all of them were left out."""
    bare_backbone: bool
    """Whether no module was live; every label is then equally likely."""
    floor: float = 0.0
    """Weight of the bare backbone with a head solved from statistics; 0 if there is no such head."""
    solved_from: int = 0
    """Number of records that the bare backbone's head was solved from."""
    agreement: float | None = None
    """Share of records to which AllSeq gives the same label, if that was asked for."""
    damaged_statistics: tuple[DamagedStatistic, ...] = ()
    """Statistics that should count and are damaged; the heads that answered do without them."""

    @property
    def damaged(self) -> tuple[str, ...]:
        """Keys of modules that should be live, and are missing or damaged."""
        return tuple(
            sorted(module.entry.key for module in self.problems if module.verdict != "not destroyed")
        )

    @property
    def labels(self) -> list[int]:
        return [int(label) for label in self.probabilities.argmax(axis=-1)]


class Predictor:
    """Predicts with a run's live modules; threads may share it, and deletions by other processes count."""

    def __init__(
        self,
        run: Path | RunFolder,
        strategy: str | None = None,
        heads: str | None = None,
        background: bool = False,
    ) -> None:
        """Open the run's model.

        `strategy` is all, min, long or merged, `heads` statistics or trained; by default what the run is set
        to. With `background`, for processes that live long, an answer does not wait until heads are solved
        anew: trained heads answer meanwhile.
        """
        self.folder = run if isinstance(run, RunFolder) else open_run(run)
        self.strategy = self.folder.config.serving.strategy if strategy is None else strategy
        if self.strategy not in (*STRATEGIES, MERGED):
            raise InputError(f"strategy: {strategy!r} is unknown; one of {', '.join((*STRATEGIES, MERGED))}")
        self.solver: HeadSolver | BackgroundSolver | None = None
        if _solves(self.folder, heads):
            solver = HeadSolver(self.folder)
            self.solver = BackgroundSolver(solver) if background else solver
        self.live: Live | None = None
        self.keys: frozenset[str] = frozenset()
        self.health: RunHealth | None = None
        # The worker holds one stack, and what is loaded in it must not change during a forward pass.
        self.lock = Lock()
        self.worker = self._open_worker()

    def predict(
        self,
        records: Sequence[Record | Content | str | bytes],
        agreement: bool = False,
    ) -> Predictions:
        """Predict these records: each is a `Record`, its content, or the input itself if there is only one.

        A record without an id is called by its place in the sequence.

        With `agreement`, `merged` is compared with AllSeq, which costs as much as AllSeq.
        """
        if not records:
            raise InputError("there is nothing to predict; give at least one record")
        # Without a fingerprint, because nothing of these records may be kept after the answer.
        given = Slice("", tuple(map(_record, count(), records)))
        with self.lock:
            return self._predict_live(given, agreement and self.strategy == MERGED)

    def refresh(self) -> None:
        """Drop modules and heads that no longer count from memory now, and not with the next prediction.

        In the background, heads begin to be solved anew.
        """
        with self.lock:
            live = self._refresh()
            if isinstance(self.solver, BackgroundSolver) and live.modules():
                self._heads(self._health(live))

    def check(self) -> None:
        """Check that the backbone's bytes have not changed since it was loaded."""
        with self.lock:
            self.worker.check()

    def _predict_live(self, records: Slice, compare: bool) -> Predictions:
        """Predict again until every module that was used is still live after the computation."""
        unreadable: dict[str, str] = {}
        while True:
            live = self._refresh()
            health = self._health(live).without(unreadable)
            heads = self._heads(health)
            chosen = heads.choose(self.strategy, health.prefixes)
            if not chosen and not self.folder.config.serving.bare_backbone:
                raise self._exhausted(health)
            try:
                found = self._probabilities(self.strategy, health, heads, chosen, records)
                agreed = self._agreement(found, health, heads, records) if compare and chosen else None
            except UnreadableModule as error:
                # The module is left out of the next attempt. If a deletion destroyed it, that attempt will
                # find it dead; if it is damaged, the answer names it.
                unreadable[error.key] = error.reason
                continue
            # A request may have come in during the computation. What it hit must not leave this process, so
            # the ledger is read once more, and everything is computed again if a module has died, or a
            # statistic of which a head was solved.
            now, serving = self._refresh(), self._serving(health, heads, chosen)
            floor = sum(weight for index, _, weight in chosen if index == FLOOR)
            if heads.count(now) and self.keys.issuperset(key for one in serving for key in one.keys):
                return Predictions(
                    tuple(record.id for record in records.records),
                    found,
                    now.position,
                    self.strategy,
                    serving,
                    self._problems(health),
                    not chosen,
                    floor,
                    heads.records if floor else 0,
                    agreed,
                    # The merged model has trained heads, unless the bare backbone answers alone.
                    heads.damaged(now) if floor or self.strategy != MERGED else (),
                )

    def _refresh(self) -> Live:
        """Read the ledger; drop modules that are no longer live from memory at once."""
        live = self.folder.live()
        # Identity is enough: the same object is returned until the ledger or the description changes.
        if live is not self.live:
            self.live = live
            self.keys = frozenset(entry.key for entry in live.modules())
            self.worker.keep(self.keys)
            if self.solver is not None:
                self.solver.keep(live)
        return live

    def _health(self, live: Live) -> RunHealth:
        # Listing the store costs a request for each look at a remote one. Once all live modules were there,
        # none is looked for again in this state; one that goes missing later shows when it is read.
        if self.health is None or self.health.live is not live or not self.keys <= self.health.whole:
            self.health = module_health(self.folder, live)
        return self.health

    def _heads(self, health: RunHealth) -> Heads:
        if self.solver is None:
            return NO_HEADS
        return self.solver.solve(health.live, solved_with(self.strategy, health.prefixes))

    def _serving(
        self, health: RunHealth, heads: Heads, chosen: Sequence[Choice]
    ) -> tuple[ServingSequence, ...]:
        chain = health.live.description.chain
        return tuple(
            ServingSequence(index, prefix, weight, chain(prefix), prefix in heads.by_chain)
            for index, prefix, weight in chosen
            if index != FLOOR
        )

    def _problems(self, health: RunHealth) -> tuple[ModuleHealth, ...]:
        """Return the problems of this state, without modules that a deletion has hit since."""
        return tuple(
            module
            for module in health.problems
            if module.verdict == "not destroyed" or module.entry.key in self.keys
        )

    def _probabilities(
        self, strategy: str, health: RunHealth, heads: Heads, chosen: Sequence[Choice], records: Slice
    ) -> Floats:
        from fedsgt.engine.inprocess import TEST_PART

        chain_of = health.live.description.chain
        prefixes = {chain_of(prefix): prefix for _, prefix, _ in chosen}

        def predict(chains: Sequence[Chain], part: Slice) -> Iterator[Floats]:
            for keys, output in zip(chains, self.worker.outputs(chains, part), strict=True):
                prefix = prefixes.get(keys, ())
                yield heads.probabilities(prefix, output.probabilities, output.features)

        weighted = [(weight, chain_of(prefix)) for _, prefix, weight in chosen]
        # The parts are as large as in an evaluation, so that both compute the same batches.
        return np.concatenate(
            [
                answer(
                    strategy,
                    weighted,
                    partial(predict, part=part),
                    partial(self.worker.predict_merged, part=part),
                )
                for part in records.parts(TEST_PART)
            ]
        )

    def _agreement(self, found: Floats, health: RunHealth, heads: Heads, records: Slice) -> float:
        """Return the agreement of `merged` with AllSeq, which has trained heads here as well."""
        everyone = NO_HEADS.choose("all", health.prefixes)
        return agreement(found, self._probabilities("all", health, NO_HEADS, everyone, records))

    def _open_worker(self) -> Worker:
        from fedsgt.stack import profile
        from fedsgt.stack.quick_import import import_transformers

        profile.apply()  # comes before torch is imported, which fixes threads and kernels
        import_transformers()
        from fedsgt.engine.worker import Setup, Worker
        from fedsgt.stack.merge import check_mergeable

        run, labels = self.folder.config, self.folder.description.labels
        if self.strategy == MERGED:
            check_mergeable(run.peft.kind)
        worker = Worker(Setup(run, labels, {}, None, self._read, None))
        # Modules on another backbone would give answers, and wrong ones.
        check_model(self.folder, worker.model)
        return worker

    def _read(self, key: str) -> Tensors:
        try:
            return self.folder.modules.get(key)
        except StoreError as error:
            raise UnreadableModule(key, error) from error

    def _exhausted(self, health: RunHealth) -> Exhausted:
        lost = [module for module in health.problems if module.entry.key in health.lost]
        reason = f" ({problem_lines(lost)[0]})" if lost else ""
        position = health.live.position
        return Exhausted(
            f"{self.folder.path}: exhausted: no module is live at ledger position {position}{reason}; "
            f"{self._remedy(health.live)}"
        )

    def _remedy(self, live: Live) -> str:
        if self.solver is None:
            return "fedsgt retrain brings modules back, or set serving.bare_backbone"
        if not any(any(records_left(live, number)) for number in range(len(live.description.clients))):
            return "no record is left to learn from"
        return (
            f"fedsgt heads {self.folder.path} makes the statistics that are missing, from which heads are "
            "solved, and fedsgt retrain brings modules back"
        )


def _solves(folder: RunFolder, heads: str | None) -> bool:
    """Whether heads that are solved from statistics may answer."""
    if heads not in (None, "statistics", "trained"):
        raise InputError(f"heads: {heads!r} is unknown; one of statistics, trained")
    return solves(folder.config) if heads is None else folder.config.heads.solve and heads == "statistics"


def _record(number: int, given: Record | Content | str | bytes) -> Record:
    if isinstance(given, Record):
        return given
    return Record(str(number), (given,) if isinstance(given, str | bytes) else tuple(given))
