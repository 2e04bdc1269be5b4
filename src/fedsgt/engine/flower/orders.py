"""Orders to clients: the rounds that they ask for, and the frozen modules that go along."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flwr.app import ArrayRecord

from fedsgt.config.sections import Heads
from fedsgt.engine.flower.messages import ModuleJob, TrainingOrder, tensor_record
from fedsgt.engine.rounds import OpenRound, client_seed
from fedsgt.engine.task import ReadModule, Task
from fedsgt.files.tensors import Tensors


class Connection(NamedTuple):
    """Flower node by which a client is reached, and since when."""

    node: int
    since: str = ""
    """Time at which it connected; a node that connects again has lost the orders it had before."""


@dataclass(frozen=True)
class RunInfo:
    """Facts of a run that the Flower engine asks for; of the clients' data it learns counts only."""

    records: Callable[[str, tuple[int, ...]], int]
    """Number of records that a client registered in some of its slices."""
    hash_of: Callable[[str], str]
    """Hash of a finished module."""
    present: Callable[[], frozenset[str]]
    """Keys of the modules that are in the store and not destroyed."""
    about: Callable[[str], Mapping[str, Any]] = lambda client: {}
    """Description of the run for a client's node."""
    heads: Heads = field(default_factory=Heads)
    """Settings that shape statistics."""
    ours: bool = True
    """Whether the nodes are on this machine, so that what they say is believed."""


class FlowerRound(OpenRound):
    """A round of one module under way, with the reasons of clients that do not take part."""

    def __init__(self, task: Task, start: Tensors, records: Mapping[str, int]) -> None:
        super().__init__(task, start, records)
        self.records = dict(records)
        self.reasons: list[str] = []
        self.over = False


@dataclass(frozen=True)
class SentOrder:
    """An order on its way to a client, until its answer comes or is given up."""

    client: str
    rounds: list[FlowerRound]
    time: float
    modules: frozenset[str]
    """Keys of the frozen modules that went along."""
    size: int
    """Bytes of the message."""
    connection: Connection
    """Connection over which it was sent."""


class DroppedOut(NamedTuple):
    """A client that does not take part in some rounds, and why."""

    client: str
    rounds: list[FlowerRound]
    why: str
    final: bool
    """Whether asking again would not help."""


class PackedModules(NamedTuple):
    """Frozen modules on their way to a node."""

    modules: dict[str, Tensors]
    """Modules that the node was not sent before."""
    hashes: dict[str, str]
    """Hashes of all modules that it needs."""
    keep: tuple[str, ...]
    """Keys of the modules that may stay on the node."""


class OrderPacker:
    """Makes the orders of one round after another, and knows which modules each client was sent."""

    def __init__(self, read_module: ReadModule, info: RunInfo) -> None:
        self.read_module, self.info = read_module, info
        self.sent: dict[str, set[str]] = {}
        """Keys of the modules on each client's node, as far as the server knows."""
        self.present: frozenset[str] = frozenset()
        self.frozen: dict[str, tuple[Tensors, str]] = {}
        self.encoded: dict[int, tuple[Tensors, ArrayRecord]] = {}

    def begin_round(self) -> None:
        """Forget the modules read for the round before: a deletion may have destroyed some since."""
        self.present = self.info.present()
        self.frozen.clear()
        self.encoded.clear()

    def check_parents(self, opened: FlowerRound) -> None:
        """Read the modules below a round's; raise what the store raises if one is gone."""
        for key in opened.task.parents:
            self.check_module(key)

    def check_module(self, key: str) -> None:
        """Read a finished module; raise what the store raises if it is gone."""
        self._frozen(key)

    def order(self, client: str, rounds: Sequence[FlowerRound]) -> TrainingOrder:
        """Make a client's order; each frozen module goes along once, with the first order that needs it."""
        packed = self.pack(client, [key for opened in rounds for key in opened.task.parents])
        jobs = tuple(_job(client, opened) for opened in rounds)
        return TrainingOrder(
            client, jobs, packed.hashes, packed.modules, packed.keep, self.info.about(client)
        )

    def pack(self, client: str, keys: Iterable[str]) -> PackedModules:
        """Return what goes along with a message for which a client's node needs these modules."""
        needed = {key: self._frozen(key) for key in keys}
        held = self.sent.setdefault(client, set())
        # Destroyed modules leave the list, so that the node, which keeps only listed ones, destroys them too.
        held &= self.present
        modules = {key: tensors for key, (tensors, _) in needed.items() if key not in held}
        # Noted before the message is sent; if it is lost, `lost` takes the modules off the list again.
        held.update(modules)
        hashes = {key: found for key, (_, found) in needed.items()}
        return PackedModules(modules, hashes, tuple(sorted(held)))

    def encode(self, tensors: Tensors) -> ArrayRecord:
        """Encode tensors once a round, however many clients they go to."""
        # Keyed by identity, which holds because the tensors are kept beside it and so are not freed.
        if id(tensors) not in self.encoded:
            self.encoded[id(tensors)] = tensors, tensor_record(tensors)
        return self.encoded[id(tensors)][1]

    def lost(self, client: str, keys: Sequence[str] | None = None) -> None:
        """Note that a client's node has lost these modules, or all that it was sent."""
        held = self.sent.pop(client, set())
        if keys is not None:
            self.sent[client] = held - set(keys)

    def _frozen(self, key: str) -> tuple[Tensors, str]:
        """Return a finished module and its hash, read once a round."""
        if key not in self.frozen:
            self.frozen[key] = self.read_module(key), self.info.hash_of(key)
        return self.frozen[key]


def _job(client: str, opened: FlowerRound) -> ModuleJob:
    task = opened.task
    slices = task.slices[client]
    return ModuleJob(task.key, task.parents, slices, task.round, client_seed(task, client), opened.start)
