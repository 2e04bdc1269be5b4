"""A worker: trains and predicts with one model on records of clients, and caches what it needs again."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from fedsgt.config import Config
from fedsgt.config.sections import Privacy
from fedsgt.data import Client, Record, Slice, in_sample, labels_of
from fedsgt.data.slices import are_slices
from fedsgt.engine.cache import ActivationCache
from fedsgt.engine.epoch_sampler import EpochSampler
from fedsgt.engine.local_update import Example, local_update
from fedsgt.engine.task import Outputs, ReadModule, Update
from fedsgt.errors import InputError
from fedsgt.files.tensors import Tensors
from fedsgt.stack import profile
from fedsgt.stack.inputs import Batch, Inputs, Item, hidden_batch, to_device
from fedsgt.stack.merge import Mixture, merge
from fedsgt.stack.model import open_model
from fedsgt.stack.stack import Stack
from fedsgt.stack.statistics import Statistic
from fedsgt.stack.steady import ROWS, in_steady_batches, length_of, shape_of
from fedsgt.window import share_used

MOST_BYTES = 1 << 29  # bytes of prepared records held in memory
MOST_MODULES = 64  # held in memory: more than the longest usual chain
LOWER_BATCH = 64  # records in one pass through the lower layers


@dataclass(frozen=True)
class Setup:
    """All that a worker process is started with; it must be possible to pickle it."""

    run: Config
    labels: int
    """Number of classes."""
    slices: Mapping[str, Sequence[Slice]] = field(repr=False)
    """Records of each client, slice by slice; not in `repr`, so that no log shows them."""
    test: Slice | None = field(repr=False)
    """Records to predict."""
    read_module: ReadModule
    """Function that returns a finished module by its key."""
    cache: Path | None
    """Folder for the lower layers' outputs; None to compute them anew in each process."""
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Secret of each client: its noise, its sample and what a window uses of its records follow from it."""

    @classmethod
    def for_clients(
        cls,
        run: Config,
        labels: int,
        clients: Iterable[Client],
        test: Slice | None,
        read_module: ReadModule,
        cache: Path | None,
    ) -> Self:
        """Return the setup of workers that train on the records of these clients."""
        known = list(clients)
        slices = {client.name: client.training_slices() for client in known}
        salts = {client.name: client.salt for client in known}
        return cls(run, labels, slices, test, read_module, cache, salts)


class Worker:
    """Does jobs one after another; its answer to a job does not depend on earlier jobs."""

    def __init__(self, setup: Setup) -> None:
        profile.apply()  # comes before the model is opened, which fixes threads and kernels
        self.setup = setup
        device = profile.pick_device(setup.run.model.device)
        self.model = open_model(setup.run, setup.labels, device)
        self.stack, self.inputs = self.model.stack, self.model.inputs
        # The recipe names everything that the lower layers' outputs depend on besides the records.
        recipe = [
            self.model.backbone.hash,
            self.inputs.describe(),
            self.stack.start,
            profile.describe(device),
        ]
        self.cache = ActivationCache(setup.cache, json.dumps(recipe, sort_keys=True)) if setup.cache else None
        # Statistics have activations of their own: those of training depend on the batches they were made in.
        steady = json.dumps([*recipe, "steady", ROWS, setup.run.heads.share], sort_keys=True)
        self.steady_cache = ActivationCache(setup.cache, steady) if setup.cache else None
        self.modules: OrderedDict[str, Tensors] = OrderedDict()
        self.prepared: OrderedDict[str, list[Item]] = OrderedDict()
        self.loaded: tuple[str, ...] | Mixture | None = None

    def update(
        self, parents: tuple[str, ...], state: Tensors, client: str, slices: tuple[int, ...], seed: int
    ) -> Update:
        """Train locally on some slices of a client, and return its update."""
        self._load(parents)
        started = time.perf_counter()
        examples = self._examples(self._slices(client, slices))
        preparing = time.perf_counter() - started
        update = local_update(
            self.stack,
            state,
            examples,
            self._batch,
            self.setup.run.training,
            seed,
            client,
            self._privacy(client),
            # The module stands on one parent for each group of its prefix but the last.
            self._sampler(client, len(parents) + 1, seed),
        )
        return replace(update, preparing=preparing)

    def _privacy(self, client: str) -> tuple[Privacy, bytes] | None:
        """Return the run's privacy settings with the client's secret; None if privacy is off."""
        privacy = self.setup.run.privacy
        return None if privacy.epsilon is None else (privacy, self.setup.secrets[client])

    def _sampler(self, client: str, depth: int, seed: int) -> EpochSampler | None:
        """Return what chooses the client's records of each epoch; None if epochs use all that are given."""
        # With "own" the task names the slices of the last group only.
        share = share_used(depth, self.setup.run.training.window)
        return None if share == 1 else EpochSampler(share, seed, self.setup.secrets[client])

    @torch.no_grad()
    def predict(self, chains: Sequence[tuple[str, ...]], part: Slice) -> NDArray[np.float32]:
        """Return class probabilities of these records (axis 1) under each chain of modules (axis 0)."""
        return np.stack([found.probabilities for found in self.outputs(chains, part)])

    @torch.no_grad()
    def outputs(self, chains: Sequence[tuple[str, ...]], part: Slice) -> list[Outputs]:
        """Return class probabilities and features of these records under each chain of modules."""
        batch, found = self._whole(part), []
        for keys in chains:
            self._load(keys)
            found.append(self._outputs(batch))
        return found

    @torch.no_grad()
    def predict_merged(self, mixture: Mixture, part: Slice) -> NDArray[np.float32]:
        """Return class probabilities of these records under the average of several chains, in one pass."""
        if self.loaded != mixture:
            self.loaded = None  # an error while loading must not leave the old name on a new state
            self.stack.load(merge(self.setup.run.peft.kind, mixture, self._module))
            self.loaded = mixture
        return self._probabilities(self._whole(part))

    @torch.no_grad()
    def statistic(self, chain: tuple[str, ...], client: str, slices: tuple[int, ...]) -> Statistic:
        """Return the statistic of a client's records in some slices, under a chain of modules."""
        self._load(chain)
        parts = [self._sampled(part, client) for part in self._slices(client, slices)]
        items = [item for part in parts for item in self._steady_items(part)]
        return self._statistic_of(
            [record for part in parts for record in part.records], self._features(items)
        )

    @torch.no_grad()
    def statistic_of(self, chain: tuple[str, ...], client: str, part: Slice) -> Statistic | None:
        """Return the statistic of some records of a client, such as deleted ones, under a chain of modules.

        It is made anew, and twice: None if features depend on the records beside them on this machine, where
        it must not be taken away from another statistic. Nothing is kept of the records.
        """
        self._load(chain)
        records = self._sampled(part, client).records
        raw = self._raw(records)
        features = self._features(self._steadily_lowered(raw))
        # Others come first, so that most records have another place in their batch, and other company.
        company = self._company(client, raw)
        if company is None:
            return None
        again = self._features(self._steadily_lowered([*company, *raw[::-1]]))[len(company) :][::-1]
        # Bytes are compared, because equal numbers may differ in their bits.
        if features.tobytes() != again.tobytes():
            return None
        return self._statistic_of(records, features)

    def keep(self, keys: Collection[str]) -> None:
        """Remove all modules but these from memory, and unfold them from the stack."""
        for key in [key for key in self.modules if key not in keys]:
            del self.modules[key]
        # The folded weights, too, hold a module's values.
        if self.loaded is None or not set(_keys(self.loaded)).issubset(keys):
            self._load(())

    def check(self) -> None:
        """Check that the backbone was not modified."""
        self.model.backbone.check()

    def _load(self, parents: tuple[str, ...]) -> None:
        """Fold these modules into the stack, unless they are already folded."""
        if self.loaded == parents:
            return
        self.loaded = None  # an error while loading must not leave the old name on a new state
        self.stack.load([self._module(key) for key in parents])
        self.loaded = parents

    def _outputs(self, batch: Batch) -> Outputs:
        """Return class probabilities and features under the loaded modules."""
        logits, features = self.stack.outputs(batch)
        return Outputs(logits.softmax(dim=-1).cpu().numpy(), features.cpu().numpy())

    def _probabilities(self, batch: Batch) -> NDArray[np.float32]:
        """Return class probabilities under the loaded modules."""
        found: NDArray[np.float32] = self.stack.logits(batch).softmax(dim=-1).cpu().numpy()
        return found

    def _module(self, key: str) -> Tensors:
        """Return a module from memory or from the store; the least recently used one makes room."""
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
        """Return all records of a slice in one batch.

        They are cached in memory if the slice has a name, and never on disk, where no deletion would look
        for records to predict.
        """
        items = self._items(part, None) if part.fingerprint else self._compute(part)
        return to_device(self._batch(items), self.stack.device)

    def _batch(self, items: Sequence[Item], length: int = 0) -> dict[str, torch.Tensor]:
        """Return a batch for the stack: outputs of the lower layers if it starts above them, else inputs."""
        if self.stack.start:
            return hidden_batch(items, self.setup.run.model.task == "text", length)
        return self.inputs.batch(items, length)

    def _items(self, part: Slice, cache: ActivationCache | None) -> list[Item]:
        """Return the prepared records of a slice: from memory, from disk, or computed."""
        return self._kept_items(part.fingerprint, part, cache, self._compute)

    def _steady_items(self, part: Slice) -> list[Item]:
        """Return the prepared records of a slice's sample, each independent of the records beside it."""
        # Records that are not run through lower layers are the same for training.
        shared = not self.stack.start and self.setup.run.heads.share == 1
        name = part.fingerprint if shared else f"{part.fingerprint}/steady"
        return self._kept_items(
            name, part, self.steady_cache, lambda part: self._steadily_lowered(self._raw(part.records))
        )

    def _kept_items(
        self, name: str, part: Slice, cache: ActivationCache | None, compute: Callable[[Slice], list[Item]]
    ) -> list[Item]:
        """Return the prepared records of a slice, which memory knows by `name`, or compute them."""
        if name in self.prepared:
            self.prepared.move_to_end(name)
            return self.prepared[name]
        # Without frozen lower layers there are no outputs to keep, only the records themselves.
        on_disk = cache if self.stack.start and part.records else None
        items = on_disk.get(part.fingerprint) if on_disk else None
        if items is None:
            items = compute(part)
            if on_disk:
                on_disk.put(part.fingerprint, items)
        self.prepared[name] = items
        # The slice at hand stays, however large it is.
        while len(self.prepared) > 1 and sum(map(_size, self.prepared.values())) > MOST_BYTES:
            self.prepared.popitem(last=False)
        return items

    def _compute(self, part: Slice) -> list[Item]:
        """Prepare the records of a slice, independently of all records outside of it."""
        raw = self._raw(part.records)
        return _lower(self.stack, self.inputs, raw) if self.stack.start else raw

    def _raw(self, records: Iterable[Record]) -> list[Item]:
        return [self.inputs.item(record.id, record.content) for record in records]

    def _slices(self, client: str, indices: Sequence[int]) -> list[Slice]:
        """Return these slices of a client; raise if it lacks one, or if one is named twice."""
        held = self.setup.slices[client]
        if not are_slices(indices, len(held)):
            raise InputError(
                f"client {client}: asked for slices {list(indices)}; allowed: 0 to {len(held) - 1}, each at "
                "most once"
            )
        return [held[index] for index in indices]

    def _sampled(self, part: Slice, client: str) -> Slice:
        """Return the slice without the records that are not in the client's sample."""
        share = self.setup.run.heads.share
        if share == 1:
            return part
        salt = self.setup.secrets[client]
        return replace(part, records=tuple(r for r in part.records if in_sample(salt, r.id, share)))

    def _company(self, client: str, raw: Sequence[Item]) -> list[Item] | None:
        """Return some of the client's records, prepared, that share batches with these.

        None if one of these would be alone, so that nothing could be told from its features.
        """
        needed = {shape_of(item, self.inputs.longest) for item in raw}
        alone, found = set(needed), list[Item]()
        for record in chain.from_iterable(part.records for part in self.setup.slices[client]):
            if not alone and (not needed or len(found) >= ROWS // 2):
                break
            (item,) = self._raw([record])
            shape = shape_of(item, self.inputs.longest)
            if shape in alone or (shape in needed and len(found) < ROWS // 2):
                alone.discard(shape)
                found.append(item)
        return None if alone else found

    def _statistic_of(self, records: Sequence[Record], features: NDArray[np.float32]) -> Statistic:
        return Statistic.of(features, labels_of(records), self.setup.labels, self.setup.run.heads.bits)

    def _features(self, items: Sequence[Item]) -> NDArray[np.float32]:
        """Return each record's features under the loaded modules, whatever the other records are."""

        def compute(chosen: Sequence[Item], length: int) -> NDArray[np.float32]:
            batch = to_device(self._batch(chosen, length), self.stack.device)
            return self.stack.outputs(batch)[1].cpu().numpy()

        found = np.empty((len(items), self.stack.feature_width(self.loaded or ())), np.float32)
        for row, computed in zip(found, in_steady_batches(items, self.inputs.longest, compute), strict=True):
            row[:] = computed
        return found

    def _steadily_lowered(self, raw: list[Item]) -> list[Item]:
        """Return the lower layers' outputs for each record, cut to its own length; the records if none."""
        if not self.stack.start:
            return raw

        def compute(chosen: Sequence[Item], length: int) -> NDArray[np.float32]:
            batch = to_device(self.inputs.batch(chosen, length), self.stack.device)
            return self.stack.lower(batch).cpu().numpy()

        rows = in_steady_batches(raw, self.inputs.longest, compute)
        return [
            {"hidden": row[: length_of(item)].copy() if self.inputs.longest else row}
            for item, row in zip(raw, rows, strict=True)
        ]


def _lower(stack: Stack, inputs: Inputs, raw: list[Item]) -> list[Item]:
    """Return the lower layers' outputs for each record, cut to its own length."""
    if not raw:
        return []
    lengths = [len(item["input_ids"]) if "input_ids" in item else 0 for item in raw]
    # Records of similar length share a batch, so that little is padded.
    order = sorted(range(len(raw)), key=lengths.__getitem__)
    found: dict[int, Item] = {}
    for start in range(0, len(order), LOWER_BATCH):
        chosen = order[start : start + LOWER_BATCH]
        batch = to_device(inputs.batch([raw[index] for index in chosen]), stack.device)
        for index, hidden in zip(chosen, stack.lower(batch).cpu().numpy(), strict=True):
            # A copy, so that the whole padded batch can be freed.
            found[index] = {"hidden": hidden[: lengths[index] or len(hidden)].copy()}
    return [found[index] for index in range(len(raw))]


def _keys(loaded: tuple[str, ...] | Mixture) -> Iterator[str]:
    """Yield the keys of all modules in a chain or a mixture of chains."""
    for entry in loaded:
        yield from (entry,) if isinstance(entry, str) else entry[1]


def _size(items: list[Item]) -> int:
    """Return the bytes that these prepared records take."""
    return sum(array.nbytes for item in items for array in item.values())
