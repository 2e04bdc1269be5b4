"""How good a run's live modules are on its test records: each prefix of each sequence, each way of selecting.

Probabilities of test records depend on data as modules do, so they lie beside their module and go with it.
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
from numpy.typing import NDArray

from fedsgt.data import Table
from fedsgt.errors import InputError
from fedsgt.files.encoding import frames
from fedsgt.plans import STRATEGIES, Choice, choose
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.records import load_test
from fedsgt.runs.state import Live
from fedsgt.serving.model import open_model_of
from fedsgt.store import CorruptModule, Folder, MissingModule, tensor_hash
from fedsgt.store.codec import pack, read_note, unpack

if TYPE_CHECKING:  # what is kept can be scored without torch
    from fedsgt.engine.inprocess import InProcess

FILE = "evaluation.json"
MERGED = "merged"
Prefix: TypeAlias = tuple[int, ...]
Floats: TypeAlias = NDArray[np.floating[Any]]
Share: TypeAlias = Callable[[float], None]


@dataclass(frozen=True)
class Accuracy:
    """Share of test records that are right, with a 95 % interval (Wilson)."""

    accuracy: float
    low: float
    high: float

    @classmethod
    def of(cls, probabilities: Floats, labels: Sequence[int]) -> Accuracy:
        total = len(labels)
        share = int((probabilities.argmax(axis=-1) == np.array(labels)).sum()) / total
        z = 1.959964
        middle = (share + z * z / (2 * total)) / (1 + z * z / total)
        half = z * sqrt(share * (1 - share) / total + z * z / (4 * total * total)) / (1 + z * z / total)
        return cls(share, middle - half, middle + half)


@dataclass(frozen=True)
class Evaluation:
    """Accuracy of each sequence cut after each of its live modules, and of each strategy."""

    position: int
    """The ledger's version that it is of."""
    records: int
    sequences: list[list[Accuracy]]
    """By sequence, then by number of modules; none for a sequence without a live module."""
    strategies: dict[str, Accuracy]
    """None at all if no module is live."""
    agreement: float | None
    """Share of test records to which `merged` gives the label that AllSeq gives."""

    def to_text(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"


def evaluate(folder: RunFolder, progress: Share = lambda share: None) -> Evaluation:
    """Of what is live now; kept in `evaluation.json`. A request that comes meanwhile begins it anew."""
    test = load_test(folder.config, folder.description.labels)
    while True:
        live = folder.live()
        try:
            evaluation = _evaluated(folder, live, test, progress)
        except (MissingModule, CorruptModule):
            if folder.live().position == live.position:
                raise
            continue
        with folder.publishing() as now:
            if now.position == live.position:
                Folder(folder.path).write(FILE, evaluation.to_text().encode())
                return evaluation


def _evaluated(folder: RunFolder, live: Live, test: Table, progress: Share) -> Evaluation:
    whole = {entry.key for entry in live.modules() if folder.modules.state(entry.key) == "present"}
    prefixes = live.prefixes(whole)
    every = [prefix[:depth] for prefix in prefixes for depth in range(1, len(prefix) + 1)]
    with Examiner(folder, test) as examiner:
        found = examiner.probabilities(live, every, progress)
        strategies = {name: score(name, found, prefixes, test.labels) for name in STRATEGIES}
        merged = examiner.merged(live, prefixes)
    agreement = None
    if merged is not None:
        strategies[MERGED] = Accuracy.of(merged, test.labels)
        agreement = agreement_of(merged, _mean(found, choose("all", prefixes)))
    curves = [
        [Accuracy.of(found[prefix[:depth]], test.labels) for depth in range(1, len(prefix) + 1)]
        for prefix in prefixes
    ]
    known = {name: accuracy for name, accuracy in strategies.items() if accuracy is not None}
    return Evaluation(live.position, len(test), curves, known, agreement)


def test_probabilities(
    folder: RunFolder, live: Live, prefixes: Iterable[Prefix], progress: Share
) -> dict[Prefix, Floats]:
    """Class probabilities of the test records (all labels a record) under each of these live prefixes.

    Only what no evaluation has kept is computed. What a deletion would leave is scored by `score` with the
    prefixes that it leaves, if those are among these.
    """
    with Examiner(folder, load_test(folder.config, folder.description.labels)) as examiner:
        return examiner.probabilities(live, prefixes, progress)


def score(
    strategy: str, predicted: Mapping[Prefix, Floats], prefixes: Iterable[Prefix], labels: Sequence[int]
) -> Accuracy | None:
    """A strategy's accuracy when these are the live parts of the sequences; none when exhausted."""
    chosen = choose(strategy, prefixes)
    return Accuracy.of(_mean(predicted, chosen), labels) if chosen else None


def mixed(weighted: Iterable[tuple[float, Floats]]) -> NDArray[np.float64]:
    """The weighted mean of class probabilities, summed in the order given."""
    first, *rest = (weight * probabilities.astype(np.float64) for weight, probabilities in weighted)
    return sum(rest, first)


def _mean(predicted: Mapping[Prefix, Floats], chosen: Iterable[Choice]) -> NDArray[np.float64]:
    return mixed((weight, predicted[prefix]) for _, prefix, weight in chosen)


def agreement_of(one: Floats, other: Floats) -> float:
    """Share of records to which both give the same label."""
    return float((one.argmax(axis=-1) == other.argmax(axis=-1)).mean())


class Examiner:
    """The test records under modules; workers start when there is something to compute, and end with it."""

    def __init__(self, folder: RunFolder, test: Table) -> None:
        self.folder, self.test = folder, test
        self.opened = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.opened.__exit__(*error)

    def probabilities(self, live: Live, prefixes: Iterable[Prefix], progress: Share) -> dict[Prefix, Floats]:
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
        """Of the live sequences' average; not kept, as it depends on them all."""
        chosen = choose("all", prefixes)
        if not chosen or self.folder.config.peft.kind == "prefix":
            return None
        mixture = tuple((weight, live.description.chain(prefix)) for _, prefix, weight in chosen)
        return self.engine.predict_merged(mixture)

    @cached_property
    def engine(self) -> InProcess:
        from fedsgt.engine.inprocess import InProcess
        from fedsgt.engine.worker import Setup, SliceData

        run, labels = self.folder.config, self.folder.description.labels
        model = open_model_of(self.folder)
        records = SliceData("test", self.test.ids, self.test.labels, self.test.contents)
        setup = Setup(run, labels, {}, records, self.folder.modules.get, None)
        return self.opened.enter_context(InProcess(setup, model.stack))

    @cached_property
    def _file(self) -> str:
        """Told apart by the records, so that other test records are other files."""
        parts = [
            part for record in self.test.records() for part in (record.id, record.digest, record.label or 0)
        ]
        code = hashlib.sha256(frames("fedsgt.test.1", self.folder.description.labels, *parts))
        return f"test-{code.hexdigest()[:16]}.safetensors"

    def _kept(self, key: str) -> Floats | None:
        """What is not whole counts as none."""
        try:
            data = self.folder.modules.objects.read(f"modules/{key}/{self._file}")
            tensors = unpack(data)
            return tensors["probabilities"] if read_note(data) == tensor_hash(tensors) else None
        except (KeyError, InputError):
            return None

    def _keep(self, key: str, probabilities: Floats) -> None:
        tensors = {"probabilities": probabilities}
        data = pack(tensors, tensor_hash(tensors))
        with self.folder.publishing() as now:
            if any(entry.key == key for entry in now.modules()):
                self.folder.modules.objects.write(f"modules/{key}/{self._file}", data)
