"""How good a run's modules are on its test records: each prefix of each sequence, each way of selecting."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from fedsgt.build.prepare import prepare
from fedsgt.build.run import RunFolder
from fedsgt.build.train import open_engine
from fedsgt.errors import InputError
from fedsgt.plans import STRATEGIES, select
from fedsgt.store import Folder

FILE = "evaluation.json"


@dataclass(frozen=True)
class Accuracy:
    """Share of test records that are right, with a 95 % interval (Wilson)."""

    accuracy: float
    low: float
    high: float

    @classmethod
    def of(cls, right: int, total: int) -> Accuracy:
        z, share = 1.959964, right / total
        middle = (share + z * z / (2 * total)) / (1 + z * z / total)
        half = z * sqrt(share * (1 - share) / total + z * z / (4 * total * total)) / (1 + z * z / total)
        return cls(share, middle - half, middle + half)


@dataclass(frozen=True)
class Evaluation:
    """Accuracy of each sequence cut after each of its modules, and of each strategy."""

    records: int
    sequences: list[list[Accuracy]]
    """By sequence, then by number of modules."""
    strategies: dict[str, Accuracy]

    def to_text(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"


def evaluate(
    folder: RunFolder,
    deleted: Collection[int] = (),
    progress: Callable[[float], None] = lambda share: None,
) -> Evaluation:
    """Every module predicts all test records once; the rest is averaging. Kept in `evaluation.json`."""
    description = folder.description
    missing = [entry.key for entry in description.modules if folder.modules.state(entry.key) != "present"]
    if missing:
        raise InputError(
            f"{folder.path}: {len(missing)} of {len(description.modules)} modules are not trained or "
            "damaged; run fedsgt train first"
        )
    prepared = prepare(folder.config, description.grouping_made())
    folder.check_backbone(prepared.recipe.backbone)
    if prepared.recipe.config_hash != description.config_hash:
        raise InputError(f"{folder.path}: tokenizer or image settings of the backbone changed since training")
    prefixes = [tuple(entry.groups) for entry in description.modules]
    with open_engine(folder, prepared) as engine:
        found = engine.predict([description.chain(prefix) for prefix in prefixes], progress)
    evaluation = score(
        dict(zip(prefixes, found, strict=True)), description.sequences, prepared.test.labels, deleted
    )
    Folder(folder.path).write(FILE, evaluation.to_text().encode())
    return evaluation


def score(
    predicted: dict[tuple[int, ...], NDArray[np.float32]],
    sequences: list[list[int]],
    labels: Collection[int],
    deleted: Collection[int],
) -> Evaluation:
    """Accuracies from the class probabilities under each prefix."""
    truth = np.array(list(labels))

    def accuracy(probabilities: NDArray[np.floating]) -> Accuracy:
        return Accuracy.of(int((probabilities.argmax(axis=-1) == truth).sum()), len(truth))

    curves = [
        [accuracy(predicted[tuple(path[:depth])]) for depth in range(1, len(path) + 1)] for path in sequences
    ]
    strategies = {}
    for strategy in STRATEGIES:
        chosen = select(strategy, sequences, deleted)
        mixed = sum(weight * predicted[prefix].astype(np.float64) for _, prefix, weight in chosen)
        if chosen:
            strategies[strategy] = accuracy(np.asarray(mixed))
    return Evaluation(len(truth), curves, strategies)
