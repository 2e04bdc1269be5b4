"""Accuracy of a run's live modules on its test records: of every live prefix, and of every strategy.

Probabilities of test records depend on training data as modules do, so they are kept in the module's folder
and destroyed with it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np

from fedsgt.data import Dataset, Slice
from fedsgt.errors import InputError
from fedsgt.files.encoding import frames
from fedsgt.files.tensors import pack, read_note, unpack
from fedsgt.plans import MERGED, STRATEGIES, Prefix, choose
from fedsgt.runs.artefacts import EVALUATION
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.health import module_health
from fedsgt.runs.records import load_test
from fedsgt.runs.state import Live
from fedsgt.serving.answer import Floats, agreement, answer, mix_known
from fedsgt.serving.model import open_model_of
from fedsgt.store import CorruptModule, Folder, MissingModule, tensor_hash

if TYPE_CHECKING:  # kept probabilities can be scored without torch
    from fedsgt.engine.inprocess import InProcess

Progress: TypeAlias = Callable[[float], None]


@dataclass(frozen=True)
class Accuracy:
    """Share of correctly predicted test records, with its 95 % interval (Wilson)."""

    accuracy: float
    low: float
    high: float

    @classmethod
    def of(cls, probabilities: Floats, labels: Sequence[int]) -> Accuracy:
        total = len(labels)
        share = int((probabilities.argmax(axis=-1) == np.array(labels)).sum()) / total
        z = 1.959964  # quantile of the normal distribution for 95 %
        middle = (share + z * z / (2 * total)) / (1 + z * z / total)
        half = z * sqrt(share * (1 - share) / total + z * z / (4 * total * total)) / (1 + z * z / total)
        return cls(share, middle - half, middle + half)


@dataclass(frozen=True)
class Evaluation:
    """Accuracy of every live prefix and of every strategy."""

    position: int
    """Ledger position at which it was measured."""
    records: int
    """Number of test records."""
    sequences: list[list[Accuracy]]
    """By sequence, then by number of modules; empty for a sequence without a live module."""
    strategies: dict[str, Accuracy]
    """By name of the strategy; empty if no module is live."""
    agreement: float | None
    """Share of test records to which `merged` gives the label that AllSeq gives."""

    def to_text(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"


def evaluate(folder: RunFolder, progress: Progress = lambda share: None) -> Evaluation:
    """Evaluate all live modules and write `evaluation.json`; restart if a request arrives."""
    folder.check_writable()
    test = load_test(folder.config, folder.description.labels)
    while True:
        live = folder.live()
        try:
            evaluation = _evaluate_live(folder, live, test, progress)
        except (MissingModule, CorruptModule):
            # A request that arrived since may have destroyed the module: that is no error, but a new start.
            if folder.live().position == live.position:
                raise
            continue
        # Under the lock, so that no request can come between this look and the writing.
        with folder.publishing() as now:
            if now.position == live.position:
                Folder(folder.path).write(EVALUATION, evaluation.to_text().encode())
                return evaluation


def _evaluate_live(folder: RunFolder, live: Live, test: Dataset, progress: Progress) -> Evaluation:
    # A damaged module must not count, though its manifest is there.
    prefixes = module_health(folder, live).prefixes
    every = [prefix[:depth] for prefix in prefixes for depth in range(1, len(prefix) + 1)]
    with Evaluator(folder, test) as evaluator:
        found = evaluator.probabilities(live, every, progress)
        strategies = {name: score(name, found, prefixes, test.labels) for name in STRATEGIES}
        merged = evaluator.merged(live, prefixes)
    agreed = None
    if merged is not None:
        strategies[MERGED] = Accuracy.of(merged, test.labels)
        agreed = agreement(merged, mix_known(found, choose("all", prefixes)))
    curves = [
        [Accuracy.of(found[prefix[:depth]], test.labels) for depth in range(1, len(prefix) + 1)]
        for prefix in prefixes
    ]
    known = {name: accuracy for name, accuracy in strategies.items() if accuracy is not None}
    return Evaluation(live.position, len(test), curves, known, agreed)


def probabilities_of_test_records(
    folder: RunFolder, live: Live, prefixes: Iterable[Prefix], progress: Progress
) -> dict[Prefix, Floats]:
    """Return class probabilities of the test records under each of these live prefixes.

    Only what no evaluation has kept is computed. `score` then tells what a deletion would leave: pass it the
    prefixes that remain, which must be among these.
    """
    with Evaluator(folder, load_test(folder.config, folder.description.labels)) as evaluator:
        return evaluator.probabilities(live, prefixes, progress)


def score(
    strategy: str, predicted: Mapping[Prefix, Floats], prefixes: Iterable[Prefix], labels: Sequence[int]
) -> Accuracy | None:
    """Return a strategy's accuracy if these are the sequences' live prefixes; None if all are empty.

    `merged` is scored as AllSeq, which it approximates: its own answer needs the modules themselves.
    """
    chosen = choose(strategy, prefixes)
    return Accuracy.of(mix_known(predicted, chosen), labels) if chosen else None


class Evaluator:
    """Computes class probabilities of the test records and keeps them beside their modules.

    Worker processes start at the first computation, and end with this context.
    """

    def __init__(self, folder: RunFolder, test: Dataset) -> None:
        self.folder, self.test = folder, test
        self.opened = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.opened.__exit__(*error)

    def probabilities(
        self, live: Live, prefixes: Iterable[Prefix], progress: Progress
    ) -> dict[Prefix, Floats]:
        """Return the probabilities under each of these live prefixes; compute those that are not kept."""
        description = live.description
        found = {prefix: self._kept(description.keys[prefix]) for prefix in prefixes}
        missing = [prefix for prefix, kept in found.items() if kept is None]
        if missing:
            computed = self.engine.predict([description.chain(prefix) for prefix in missing], progress)
            for prefix, array in zip(missing, computed, strict=True):
                found[prefix] = array
                self._keep(description.keys[prefix], array)
        return {prefix: array for prefix, array in found.items() if array is not None}

    def merged(self, live: Live, prefixes: Iterable[Prefix]) -> Floats | None:
        """Return the probabilities under the average of the live sequences; None if there is none."""
        chosen = choose(MERGED, prefixes)
        if not chosen or self.folder.config.peft.kind == "prefix":  # virtual tokens have no average
            return None
        # The result is not kept: it depends on every live module, so no single module's folder is its place.
        weighted = [(weight, live.description.chain(prefix)) for _, prefix, weight in chosen]
        return answer(MERGED, weighted, self.engine.predict, self.engine.predict_merged)

    @cached_property
    def engine(self) -> InProcess:
        from fedsgt.engine.inprocess import InProcess
        from fedsgt.engine.worker import Setup

        run, labels = self.folder.config, self.folder.description.labels
        model = open_model_of(self.folder)
        records = Slice("test", self.test.records)  # named, so that workers prepare the records only once
        setup = Setup(run, labels, {}, records, self.folder.modules.get, None)
        return self.opened.enter_context(InProcess(setup, model.stack))

    @cached_property
    def _file(self) -> str:
        """Name of the kept files: a hash of the test records, so that other test records are other files."""
        parts = [
            part for record in self.test.records for part in (record.id, record.digest, record.label or 0)
        ]
        code = hashlib.sha256(frames("fedsgt.test.1", self.folder.description.labels, *parts))
        return f"test-{code.hexdigest()[:16]}.safetensors"

    def _kept(self, key: str) -> Floats | None:
        """Return the kept probabilities; None if there are none, or if the file is damaged."""
        try:
            data = self.folder.modules.objects.read(f"modules/{key}/{self._file}")
            tensors = unpack(data)
            # The file holds its own hash, so that a damaged one is noticed.
            return tensors["probabilities"] if read_note(data) == tensor_hash(tensors) else None
        except (KeyError, InputError):  # computed again, as if it had never been kept
            return None

    def _keep(self, key: str, probabilities: Floats) -> None:
        if not self.folder.writable:
            return  # a dry run on an auditor's copy, say, computes them anew each time
        tensors = {"probabilities": probabilities}
        data = pack(tensors, tensor_hash(tensors))
        # Checked under the lock: a module that a request has condemned must not get a new file.
        with self.folder.publishing() as now:
            if any(entry.key == key for entry in now.modules()):
                self.folder.modules.objects.write(f"modules/{key}/{self._file}", data)
