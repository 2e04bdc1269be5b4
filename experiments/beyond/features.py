"""Features of every record under a run's chains, kept on disk for all streams of requests.

A stream only takes records and chains away, so that the heads after any deletion can be solved from these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsgt.data import Record, Slice
from fedsgt.data.fingerprints import in_sample
from fedsgt.engine.worker import Setup, Worker
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.records import load_clients, load_test

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]
Prefix = tuple[int, ...]
BATCH = 32


@dataclass(frozen=True)
class Chain:
    """Features of the records under one chain; the empty one is the bare backbone."""

    train: Floats
    """Features of the training records, a row for each."""
    test: Floats
    trained: Floats
    """Class probabilities of the test records by the chain's trained head."""


@dataclass(frozen=True)
class Records:
    """Training records, in the order of their rows."""

    records: tuple[Record, ...]
    labels: Integers
    rows: dict[tuple[int, int], list[int]]
    """Rows of each client's slices, in the order of the records' ids."""


class Features:
    """Features of a run's records, computed for the chains that are asked for and are not kept yet."""

    def __init__(self, folder: RunFolder, place: Path, share: float = 1.0) -> None:
        self.folder, self.place = folder, place
        self.train = _training_records(folder, share)
        self.test = load_test(folder.config, folder.description.labels)
        self.chains: dict[Prefix, Chain] = {}

    def compute(self, prefixes: Collection[Prefix]) -> None:
        """Compute what is not kept of these chains; a stop loses the chain at hand only."""
        missing = [prefix for prefix in prefixes if not self._file(prefix).exists()]
        if not missing:
            return
        self.place.mkdir(parents=True, exist_ok=True)
        run, labels = self.folder.config, self.folder.description.labels
        worker = Worker(Setup(run, labels, {}, None, self.folder.modules.get, None))
        train, test = _parts("train", self.train.records), _parts("test", self.test.records)
        for prefix in missing:
            keys = self.folder.description.chain(prefix)
            seen = [_outputs(worker, keys, parts) for parts in (train, test)]
            part = self.place / f"{self._file(prefix).stem}.part.npz"
            np.savez(part, train=seen[0][0], test=seen[1][0], trained=seen[1][1])
            part.rename(self._file(prefix))

    def chain(self, prefix: Prefix) -> Chain:
        if prefix not in self.chains:
            with np.load(self._file(prefix)) as found:
                self.chains[prefix] = Chain(found["train"], found["test"], found["trained"])
        return self.chains[prefix]

    def _file(self, prefix: Prefix) -> Path:
        return self.place / f"{'-'.join(map(str, prefix)) or 'backbone'}.npz"


def _training_records(folder: RunFolder, share: float) -> Records:
    """Return the records, or the sample of them that `heads.share` would take."""
    records: list[Record] = []
    rows = {}
    for number, client in enumerate(load_clients(folder.config).local):
        for index, whole in enumerate(client.cut()):
            part = [record for record in whole if share == 1 or in_sample(client.salt, record.id, share)]
            rows[number, index] = list(range(len(records), len(records) + len(part)))
            records += part
    return Records(tuple(records), np.array([record.label for record in records], np.int64), rows)


def _parts(name: str, records: Sequence[Record]) -> list[tuple[list[int], Slice]]:
    """Cut records into batches, those of like length together, as texts are padded to the longest."""

    def length(index: int) -> int:
        return sum(len(part) for part in records[index].content if isinstance(part, str))

    order = sorted(range(len(records)), key=lambda index: (length(index), index))
    chosen = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
    # With a name, so that the worker prepares the records and their lower layers once.
    return [
        (places, Slice(f"{name}-{number}", tuple(records[index] for index in places)))
        for number, places in enumerate(chosen)
    ]


def _outputs(
    worker: Worker, keys: tuple[str, ...], parts: Iterable[tuple[list[int], Slice]]
) -> tuple[Floats, Floats]:
    """Return features and class probabilities, in the order of the records."""
    found = [(places, worker.outputs([keys], part)[0]) for places, part in parts]
    order = np.argsort([place for places, _ in found for place in places])
    features = np.concatenate([one.features for _, one in found])
    return features[order], np.concatenate([one.probabilities for _, one in found])[order]
