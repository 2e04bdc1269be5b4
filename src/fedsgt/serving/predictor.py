"""Prediction with live modules only: every answer is checked against the ledger before it is given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsgt.data import Content
from fedsgt.errors import InputError
from fedsgt.plans import STRATEGIES, Choice, choose
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.runs.state import Live
from fedsgt.serving.evaluation import MERGED, agreement_of, mixed
from fedsgt.serving.model import check_model
from fedsgt.store import StoreError, Tensors

if TYPE_CHECKING:  # torch must be imported under the execution profile
    from fedsgt.engine.worker import SliceData, Worker

Floats: TypeAlias = NDArray[np.float64]


class Exhausted(InputError):
    """No module is live, and the bare backbone may not answer (SPEC, definition 7)."""


@dataclass(frozen=True)
class Served:
    """A sequence that took part in an answer."""

    index: int
    groups: tuple[int, ...]
    """Its live part."""
    weight: float
    keys: tuple[str, ...]
    """Of its modules, root first."""


@dataclass(frozen=True)
class Answer:
    """Predictions, and what they were made with."""

    ids: tuple[str, ...] = field(repr=False)
    probabilities: Floats = field(repr=False)
    """A row for each record, a column for each label."""
    position: int
    """The ledger's version at which every module that was used was live."""
    strategy: str
    sequences: tuple[Served, ...]
    damaged: tuple[str, ...]
    """Keys of modules that should be live and cannot be read: the answer was made without them."""
    bare_backbone: bool
    """Whether no module was live; every label is then as likely as any other."""
    agreement: float | None = None
    """Share of these records to which AllSeq gives the same label, if that was asked for."""

    @property
    def labels(self) -> list[int]:
        return [int(label) for label in self.probabilities.argmax(axis=-1)]


class Predictor:
    """Answers for a run; threads may share it. Other processes' deletions hold for it as its own would."""

    def __init__(self, run: Path | RunFolder, strategy: str | None = None) -> None:
        """The strategy is `all`, `min`, `long` or `merged`; without it, what the run's settings say."""
        self.folder = run if isinstance(run, RunFolder) else open_run(run)
        self.strategy = self.folder.config.serving.strategy if strategy is None else strategy
        if self.strategy not in (*STRATEGIES, MERGED):
            raise InputError(f"strategy: {strategy!r} is unknown; one of {', '.join((*STRATEGIES, MERGED))}")
        self.live: Live | None = None
        self.keys: frozenset[str] = frozenset()
        self.present: frozenset[str] = frozenset()
        self.lock = Lock()
        self.worker = self._worker()

    def predict(
        self,
        contents: Sequence[Content | str | bytes],
        ids: Sequence[str] | None = None,
        agreement: bool = False,
    ) -> Answer:
        """Class probabilities of these records: one entry an input column, or the one input itself.

        With `agreement`, `merged` is compared with AllSeq, which costs what AllSeq costs.
        """
        records = _records(contents, ids)
        with self.lock:
            return self._fenced(records, agreement and self.strategy == MERGED)

    def check(self) -> None:
        """The backbone's bytes are what they were."""
        with self.lock:
            self.worker.check()

    def _fenced(self, records: SliceData, agreement: bool) -> Answer:
        """What was computed counts only if everything it was made of is live once it is there."""
        unreadable: dict[str, str] = {}
        while True:
            live = self._refreshed()
            chosen = choose("all" if self.strategy == MERGED else self.strategy, self._prefixes(unreadable))
            if not chosen and not self.folder.config.serving.bare_backbone:
                raise self._exhausted(live, unreadable)
            served = tuple(_served(live, choice) for choice in chosen)
            try:
                found, agreed = self._probabilities(served, records, agreement)
            except Unreadable as error:
                unreadable[error.key] = str(error)
                continue
            position = self._refreshed().position
            if self.keys.issuperset(key for sequence in served for key in sequence.keys):
                damaged = tuple(sorted(self.keys & unreadable.keys()))
                return Answer(
                    records.ids, found, position, self.strategy, served, damaged, not served, agreed
                )

    def _refreshed(self) -> Live:
        """The run at the ledger's present version; what is no longer live leaves the memory at once."""
        live = self.folder.live()
        if live is not self.live:
            self.live = live
            self.keys = frozenset(entry.key for entry in live.modules())
            self.worker.keep(self.keys)
        return live

    def _prefixes(self, unreadable: Iterable[str]) -> list[tuple[int, ...]]:
        assert self.live is not None
        # Once all that is wanted was there, nothing is looked for; what goes missing is met in reading.
        if not self.keys <= self.present:
            self.present = self.folder.present()
        return self.live.prefixes(self.present.difference(unreadable))

    def _probabilities(
        self, served: Sequence[Served], records: SliceData, agreement: bool
    ) -> tuple[Floats, float | None]:
        if self.strategy != MERGED or not served:
            return self._mean(served, records), None
        merged = self._merged(served, records)
        return merged, agreement_of(merged, self._mean(served, records)) if agreement else None

    def _mean(self, served: Sequence[Served], records: SliceData) -> Floats:
        """The weighted mean of the sequences' probabilities; a bare backbone is a sequence of no module."""
        from fedsgt.engine.inprocess import TEST_PART

        weights = [sequence.weight for sequence in served] or [1.0]
        chains = [sequence.keys for sequence in served] or [()]
        parts = records.parts(TEST_PART)
        return np.concatenate(
            [mixed(zip(weights, self.worker.predict(chains, part), strict=True)) for part in parts]
        )

    def _merged(self, served: Sequence[Served], records: SliceData) -> Floats:
        from fedsgt.engine.inprocess import TEST_PART

        mixture = tuple((sequence.weight, sequence.keys) for sequence in served)
        parts = [self.worker.predict_merged(mixture, part) for part in records.parts(TEST_PART)]
        return np.concatenate(parts).astype(np.float64)

    def _worker(self) -> Worker:
        from fedsgt.stack import profile

        profile.apply()
        from fedsgt.engine.worker import Setup, Worker
        from fedsgt.stack.merge import check_mergeable

        run, labels = self.folder.config, self.folder.description.labels
        if self.strategy == MERGED:
            check_mergeable(run.peft.kind)
        worker = Worker(Setup(run, labels, {}, None, self._read, None))
        check_model(self.folder, worker.model)
        return worker

    def _read(self, key: str) -> Tensors:
        try:
            return self.folder.modules.get(key)
        except StoreError as error:
            raise Unreadable(key, error) from error

    def _exhausted(self, live: Live, unreadable: dict[str, str]) -> Exhausted:
        damaged = [unreadable[key] for key in sorted(self.keys & unreadable.keys())]
        reason = f" ({damaged[0]})" if damaged else ""
        return Exhausted(
            f"{self.folder.path}: exhausted: no module is live at ledger position {live.position}{reason}; "
            "fedsgt retrain brings modules back, or set serving.bare_backbone"
        )


class Unreadable(Exception):
    """A module that cannot be read: destroyed by now, or damaged."""

    def __init__(self, key: str, cause: StoreError) -> None:
        super().__init__(str(cause))
        self.key = key


def _served(live: Live, choice: Choice) -> Served:
    index, prefix, weight = choice
    return Served(index, prefix, weight, live.description.chain(prefix))


def _records(contents: Sequence[Content | str | bytes], ids: Sequence[str] | None) -> SliceData:
    from fedsgt.engine.worker import SliceData

    if not contents:
        raise InputError("there is nothing to predict; give at least one record")
    names = tuple(map(str, range(len(contents)))) if ids is None else tuple(ids)
    if len(names) != len(contents):
        raise InputError(f"{len(names)} ids for {len(contents)} records; give one for each, or none")
    whole = tuple((content,) if isinstance(content, str | bytes) else content for content in contents)
    return SliceData("", names, (), whole)
