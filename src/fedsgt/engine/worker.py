"""One process that trains: a stack, the clients' data it was given, and what it keeps to be quick."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from fedsgt.config import Config
from fedsgt.config.sections import Privacy
from fedsgt.data import Slice
from fedsgt.engine.cache import ActivationCache
from fedsgt.engine.local_update import Example, local_update
from fedsgt.engine.task import ReadModule, Update
from fedsgt.files.tensors import Tensors
from fedsgt.stack import profile
from fedsgt.stack.inputs import Batch, Inputs, Item, hidden_batch, to_device
from fedsgt.stack.merge import Mixture, merge
from fedsgt.stack.model import open_model
from fedsgt.stack.stack import Stack

MOST_BYTES = 1 << 29  # of prepared records held in memory
MOST_MODULES = 64
LOWER_BATCH = 64


@dataclass(frozen=True)
class Setup:
    """All that a worker process is started with."""

    run: Config
    labels: int
    slices: Mapping[str, Sequence[Slice]] = field(repr=False)
    test: Slice | None = field(repr=False)
    read_module: ReadModule
    cache: Path | None
    """Folder for lower activations; they are computed anew each time without one."""
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """What each client alone knows, for noise that nobody else can take off."""


class Worker:
    """Does jobs one after another; what a job gives depends on the job alone, never on earlier ones."""

    def __init__(self, setup: Setup) -> None:
        profile.apply()
        self.setup = setup
        device = profile.pick_device(setup.run.model.device)
        self.model = open_model(setup.run, setup.labels, device)
        self.stack, self.inputs = self.model.stack, self.model.inputs
        recipe = [
            self.model.backbone.hash,
            self.inputs.describe(),
            self.stack.start,
            profile.describe(device),
        ]
        self.cache = ActivationCache(setup.cache, json.dumps(recipe, sort_keys=True)) if setup.cache else None
        self.modules: OrderedDict[str, Tensors] = OrderedDict()
        self.prepared: OrderedDict[str, list[Item]] = OrderedDict()
        self.loaded: tuple[str, ...] | Mixture | None = None

    def update(
        self, parents: tuple[str, ...], state: Tensors, client: str, slices: tuple[int, ...], seed: int
    ) -> Update:
        """A client's local training on some of its slices."""
        self._load(parents)
        examples = self._examples([self.setup.slices[client][index] for index in slices])
        return local_update(
            self.stack,
            state,
            examples,
            self._batch,
            self.setup.run.training,
            seed,
            client,
            self._privacy(client),
        )

    def _privacy(self, client: str) -> tuple[Privacy, bytes] | None:
        privacy = self.setup.run.privacy
        return None if privacy.epsilon is None else (privacy, self.setup.secrets[client])

    @torch.no_grad()
    def predict(self, chains: Sequence[tuple[str, ...]], part: Slice) -> NDArray[np.float32]:
        """Class probabilities of these records (second axis) under each chain of modules (first)."""
        batch, found = self._whole(part), []
        for keys in chains:
            self._load(keys)
            found.append(self._probabilities(batch))
        return np.stack(found)

    @torch.no_grad()
    def predict_merged(self, mixture: Mixture, part: Slice) -> NDArray[np.float32]:
        """Class probabilities of these records under the average of several chains, in one forward pass."""
        if self.loaded != mixture:
            self.loaded = None
            self.stack.load(merge(self.setup.run.peft.kind, mixture, self._module))
            self.loaded = mixture
        return self._probabilities(self._whole(part))

    def keep(self, keys: Collection[str]) -> None:
        """Drop all modules but these from memory, and what is folded of them."""
        for key in [key for key in self.modules if key not in keys]:
            del self.modules[key]
        if self.loaded is None or not set(_keys(self.loaded)).issubset(keys):
            self._load(())

    def check(self) -> None:
        """The backbone's bytes are what they were."""
        self.model.backbone.check()

    def _load(self, parents: tuple[str, ...]) -> None:
        """Fold these modules, unless they are just what is folded."""
        if self.loaded == parents:
            return
        self.loaded = None
        self.stack.load([self._module(key) for key in parents])
        self.loaded = parents

    def _probabilities(self, batch: Batch) -> NDArray[np.float32]:
        """Under what is loaded."""
        found: NDArray[np.float32] = self.stack.logits(batch).softmax(dim=-1).cpu().numpy()
        return found

    def _module(self, key: str) -> Tensors:
        if key not in self.modules:
            self.modules[key] = self.setup.read_module(key)
            if len(self.modules) > MOST_MODULES:
                self.modules.popitem(last=False)
        self.modules.move_to_end(key)
        return self.modules[key]

    def _examples(self, slices: Sequence[Slice]) -> list[Example]:
        """Return the records of the slices, prepared and in the order of their ids.

        Sorting them together leaves no trace of how they were sliced.
        """
        pairs = (zip(part.records, self._items(part, self.cache), strict=True) for part in slices)
        return sorted(chain.from_iterable(pairs), key=lambda example: example[0].id)

    def _whole(self, part: Slice) -> Batch:
        """All records of it in one batch; they are remembered if it has a name, and not on disk."""
        items = self._items(part, None) if part.fingerprint else self._compute(part)
        return to_device(self._batch(items), self.stack.device)

    def _batch(self, items: Sequence[Item]) -> dict[str, torch.Tensor]:
        if self.stack.start:
            return hidden_batch(items, text=self.setup.run.model.task == "text")
        return self.inputs.batch(items)

    def _items(self, part: Slice, cache: ActivationCache | None) -> list[Item]:
        """Prepared records of a slice: from memory, from disk, or computed."""
        if part.fingerprint in self.prepared:
            self.prepared.move_to_end(part.fingerprint)
            return self.prepared[part.fingerprint]
        on_disk = cache if self.stack.start and part.records else None
        items = on_disk.get(part.fingerprint) if on_disk else None
        if items is None:
            items = self._compute(part)
            if on_disk:
                on_disk.put(part.fingerprint, items)
        self.prepared[part.fingerprint] = items
        while len(self.prepared) > 1 and sum(map(_size, self.prepared.values())) > MOST_BYTES:
            self.prepared.popitem(last=False)
        return items

    def _compute(self, part: Slice) -> list[Item]:
        """A slice's records by themselves: what they become depends on no record outside the slice."""
        raw = [self.inputs.item(record.id, record.content) for record in part.records]
        return _lower(self.stack, self.inputs, raw) if self.stack.start else raw


def _lower(stack: Stack, inputs: Inputs, raw: list[Item]) -> list[Item]:
    """Lower layers' outputs, each at its record's own length; records of like length go together."""
    if not raw:
        return []
    lengths = [len(item["input_ids"]) if "input_ids" in item else 0 for item in raw]
    order = sorted(range(len(raw)), key=lengths.__getitem__)
    found: dict[int, Item] = {}
    for start in range(0, len(order), LOWER_BATCH):
        chosen = order[start : start + LOWER_BATCH]
        batch = to_device(inputs.batch([raw[index] for index in chosen]), stack.device)
        for index, hidden in zip(chosen, stack.lower(batch).cpu().numpy(), strict=True):
            found[index] = {"hidden": hidden[: lengths[index] or len(hidden)].copy()}
    return [found[index] for index in range(len(raw))]


def _keys(loaded: tuple[str, ...] | Mixture) -> Iterator[str]:
    for entry in loaded:
        yield from (entry,) if isinstance(entry, str) else entry[1]


def _size(items: list[Item]) -> int:
    return sum(array.nbytes for item in items for array in item.values())
