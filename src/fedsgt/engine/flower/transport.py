"""Carries a round's orders to the nodes and their answers back, whoever comes, goes or is late."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from flwr.app import ArrayRecord, Message, RecordDict
from flwr.serverapp import Grid

from fedsgt.config.sections import Engine as Settings
from fedsgt.engine.events import ClientTrouble, Listener
from fedsgt.engine.flower.internals import ErrorCode
from fedsgt.engine.flower.messages import (
    ModuleJob,
    TrainingOrder,
    encode_order,
    size_of,
    tensor_record,
    text_message,
)
from fedsgt.engine.flower.traffic import Traffic
from fedsgt.engine.rounds import OpenRound, Server, client_order, client_seed
from fedsgt.engine.task import Task
from fedsgt.files.tensors import Tensors
from fedsgt.words import LONGEST_MESSAGE, printable

MOST_IN_FLIGHT = 256 << 20  # bytes
MOST_FAILURES = 3  # of a client, in a row, before it is taken at its word
PATIENCE = 60.0  # seconds for a last word with each node
LONG = 30 * 86400.0  # seconds that a message may be under way to a client that is waited for
LOOK_SECONDS = 2.0  # between two looks whether nodes are still those that were asked
AWAY = (ErrorCode.NODE_UNAVAILABLE, ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE)


class Connection(NamedTuple):
    """Where a client is reached."""

    node: int
    since: str = ""
    """When it connected: whoever connects again has lost what it was asked before."""


@dataclass(frozen=True)
class RunInfo:
    """What has to be known of the clients and of the run; of their data only counts."""

    records: Callable[[str, tuple[int, ...]], int]
    """How many records a client registered in some of its slices."""
    hash_of: Callable[[str], str]
    """Hash of a finished module."""
    present: Callable[[], frozenset[str]]
    """Keys of the modules that are there, and not destroyed."""
    about: Callable[[str], Mapping[str, Any]] = lambda client: {}
    """What a client's node is told of the run."""
    ours: bool = True
    """Whether the nodes are on this machine, and believed whatever they say."""


class FlowerRound(OpenRound):
    """A round of one module under way, and why some could not take part."""

    def __init__(self, task: Task, start: Tensors, records: Mapping[str, int]) -> None:
        super().__init__(task, start, records)
        self.records = dict(records)
        self.reasons: list[str] = []
        self.over = False


@dataclass
class SentOrder:
    """A message to a client that is not answered yet."""

    client: str
    rounds: list[FlowerRound]
    sent: float
    carried: frozenset[str]
    """Modules that went along."""
    size: int
    """Bytes."""
    place: Connection


class DroppedOut(NamedTuple):
    """Rounds that a client will not answer."""

    client: str
    rounds: list[FlowerRound]
    why: str
    final: bool
    """Whether to ask again would not help."""


Arrival: TypeAlias = tuple[SentOrder, RecordDict]


class Transport:
    """`nodes` tells where each client that is connected at the moment is reached.

    With the setting `wait`, who is away is asked again once it is back; otherwise it is told as lost. Nodes
    that are played by a few processes of this machine are asked so many `at_once`: a simulation that has to
    look through many messages is slow, and the last words of so many reach every process.
    """

    def __init__(
        self,
        grid: Grid,
        nodes: Callable[[], Mapping[str, Connection]],
        server: Server,
        info: RunInfo,
        settings: Settings,
        tell: Listener,
        at_once: int | None = None,
    ) -> None:
        self.grid, self.nodes, self.server, self.info, self.settings = grid, nodes, server, info, settings
        self.tell, self.traffic, self.at_once = tell, Traffic(), at_once
        self.outbox: deque[tuple[str, list[FlowerRound]]] = deque()
        self.unanswered: dict[str, SentOrder] = {}
        self.away: dict[str, list[FlowerRound]] = {}
        self.lost: list[DroppedOut] = []
        self.broken: list[tuple[FlowerRound, Exception]] = []
        """Rounds whose modules below are not there any more."""
        self.failures: Counter[str] = Counter()
        self.sent: dict[str, set[str]] = {}
        self.looked = time.monotonic()
        self.present: frozenset[str] = frozenset()
        self.frozen: dict[str, tuple[Tensors, str]] = {}
        self.encoded: dict[int, tuple[Tensors, ArrayRecord]] = {}

    @property
    def busy(self) -> bool:
        return bool(self.outbox or self.unanswered or self.away or self.lost or self.broken)

    def under_way(self) -> Iterator[FlowerRound]:
        for rounds in (
            *(rounds for _, rounds in self.outbox),
            *(sent_order.rounds for sent_order in self.unanswered.values()),
            *self.away.values(),
        ):
            yield from rounds

    def drop_over(self) -> None:
        """Nobody is waited for in vain: an answer to rounds that are all over is not needed."""
        for client in [client for client, rounds in self.away.items() if all(o.over for o in rounds)]:
            del self.away[client]
        for name in [
            name for name, sent_order in self.unanswered.items() if all(o.over for o in sent_order.rounds)
        ]:
            del self.unanswered[name]

    def depart(self, rounds: Sequence[FlowerRound]) -> None:
        """One message to each client, with all that waits for it; the order is that of summing up."""
        self.present = self.info.present()
        self.frozen.clear()
        self.encoded.clear()
        self.traffic.rounds += 1
        records: dict[str, int] = {}
        for opened in rounds:
            for client, number in opened.records.items():
                records[client] = max(number, records.get(client, 0))
        self.outbox.extend(
            (client, [opened for opened in rounds if client in opened.waiting])
            for client in client_order(records)
        )

    def listen(self) -> list[Arrival]:
        """What has arrived; who is late is given up, and who came back asked again."""
        self._send_some()
        replies = list(self.grid.pull_messages(list(self.unanswered))) if self.unanswered else []
        answered = [
            (self.unanswered.pop(reply.metadata.reply_to_message_id, None), reply) for reply in replies
        ]
        arrivals: list[Arrival] = []
        for sent_order, reply in answered:
            if sent_order is not None and reply.has_error():
                self._failed(sent_order, reply)
            elif sent_order is not None:
                self.failures.pop(sent_order.client, None)
                self.traffic.of_client(sent_order.client).up += size_of(reply.content)
                arrivals.append((sent_order, reply.content))
        self._drop_late()
        if self.away or time.monotonic() > self.looked + LOOK_SECONDS:
            self._look_around()
        return arrivals

    def send_again(self, sent_order: SentOrder, lacks: Sequence[str]) -> None:
        """The node has lost these modules, by a new start perhaps."""
        self.sent[sent_order.client] = self.sent.get(sent_order.client, set()) - set(lacks)
        self._send(sent_order.client, sent_order.rounds, self.nodes())

    def last_words(self, pause: float) -> Iterator[tuple[str, Message | None]]:
        """Tell every node that was sent anything that this is the end; its answer, or none."""
        nodes = self.nodes()
        asked = [client for client in self.sent if client in nodes][: self.at_once]
        messages = [
            Message(text_message(self.info.about(client)), nodes[client].node, "query.end")
            for client in asked
        ]
        names = dict(zip(self.grid.push_messages(messages), asked, strict=True))
        end = time.monotonic() + PATIENCE
        while names and time.monotonic() < end:
            replies = list(self.grid.pull_messages(list(names)))
            for reply in replies:
                client = names.pop(reply.metadata.reply_to_message_id, None)
                if client is not None:
                    yield client, reply
            if not replies:
                time.sleep(pause)
        away = [client for client in self.sent if client not in nodes]
        for client in (*names.values(), *away):
            yield client, None

    def _send_some(self) -> None:
        """No more at once than memory has room for, be there ever so many clients."""
        nodes: Mapping[str, Connection] | None = None
        while self.outbox and self._has_room():
            nodes = self.nodes() if nodes is None else nodes
            self._send(*self.outbox.popleft(), nodes)

    def _has_room(self) -> bool:
        if self.at_once is not None and len(self.unanswered) >= self.at_once:
            return False
        return sum(sent_order.size for sent_order in self.unanswered.values()) < MOST_IN_FLIGHT

    def _send(self, client: str, rounds: list[FlowerRound], nodes: Mapping[str, Connection]) -> None:
        rounds = [opened for opened in rounds if not opened.over and self._stands(opened)]
        if not rounds:
            return
        place = nodes.get(client)
        if place is None:
            self._missing(client, rounds, "is not connected")
            return
        order = self._order(client, rounds)
        content = encode_order(order, self._encoded)
        ttl = LONG if self.settings.absent == "wait" else self.settings.timeout + PATIENCE
        (name,) = self.grid.push_messages([Message(content, place.node, "train", ttl=ttl)])
        if not name:
            self._missing(client, rounds, "could not be sent its order")
            return
        size = size_of(content)
        self.unanswered[name] = SentOrder(
            client, rounds, time.monotonic(), frozenset(order.modules), size, place
        )
        line = self.traffic.of_client(client)
        line.messages += 1
        line.modules += len(rounds)
        line.down += size

    def _stands(self, opened: FlowerRound) -> bool:
        """Whether the modules below are still there; if not, the build knows whether that is as it should."""
        try:
            for key in opened.task.parents:
                self._frozen(key)
        except Exception as error:
            self.broken.append((opened, error))
            opened.over = True
        return not opened.over

    def _frozen(self, key: str) -> tuple[Tensors, str]:
        """A finished module and its hash, read once a round."""
        if key not in self.frozen:
            self.frozen[key] = self.server.read_module(key), self.info.hash_of(key)
        return self.frozen[key]

    def _encoded(self, tensors: Tensors) -> ArrayRecord:
        """Encoded once a round, however many clients they go to; the key is good as long as they are held."""
        if id(tensors) not in self.encoded:
            self.encoded[id(tensors)] = tensors, tensor_record(tensors)
        return self.encoded[id(tensors)][1]

    def _order(self, client: str, rounds: list[FlowerRound]) -> TrainingOrder:
        """Frozen modules go along once: later rounds carry only what the node has not got."""
        needed = {key: self._frozen(key) for opened in rounds for key in opened.task.parents}
        held = self.sent.setdefault(client, set())
        held &= self.present
        modules = {key: tensors for key, (tensors, _) in needed.items() if key not in held}
        held.update(modules)
        jobs = tuple(_job(client, opened) for opened in rounds)
        hashes = {key: mark for key, (_, mark) in needed.items()}
        return TrainingOrder(client, jobs, hashes, modules, tuple(sorted(held)), self.info.about(client))

    def _failed(self, sent_order: SentOrder, reply: Message) -> None:
        """Who is away may come back; a program that fails again and again would fail once more."""
        self.sent.pop(sent_order.client, None)  # whatever was there may be gone
        why = f"gave no answer ({reason(reply)})"
        self.failures[sent_order.client] += reply.error.code not in AWAY
        if self.failures[sent_order.client] >= MOST_FAILURES:
            self.lost.append(DroppedOut(sent_order.client, sent_order.rounds, why, final=True))
        else:
            self._missing(sent_order.client, sent_order.rounds, why)

    def _missing(self, client: str, rounds: list[FlowerRound], why: str) -> None:
        left = [opened for opened in rounds if not opened.over]
        if self.settings.absent == "wait" and left:
            self.tell(ClientTrouble(client, f"{why}; waiting for it"))
            self.away.setdefault(client, []).extend(left)
        elif left:
            self.lost.append(DroppedOut(client, left, why, final=False))

    def _drop_late(self) -> None:
        if self.settings.absent == "wait":
            return
        latest = time.monotonic() - self.settings.timeout
        for name in [name for name, sent_order in self.unanswered.items() if sent_order.sent < latest]:
            sent_order = self.unanswered.pop(name)
            self._missing(
                sent_order.client, sent_order.rounds, f"has not answered for {self.settings.timeout:g} s"
            )

    def _look_around(self) -> None:
        """Ask again who came back; who connected anew since it was asked will not answer any more."""
        nodes, self.looked = self.nodes(), time.monotonic()
        for client in [client for client in self.away if client in nodes]:
            self._send(client, self.away.pop(client), nodes)
        for name, sent_order in list(self.unanswered.items()):
            if nodes.get(sent_order.client, sent_order.place) != sent_order.place:
                del self.unanswered[name]
                self.sent.pop(sent_order.client, None)
                self._missing(sent_order.client, sent_order.rounds, "was started again")


def _job(client: str, opened: FlowerRound) -> ModuleJob:
    task = opened.task
    slices = task.slices[client]
    return ModuleJob(task.key, task.parents, slices, task.round, client_seed(task, client), opened.start)


def reason(reply: Message) -> str:
    """Why a message has no answer, as Flower or the node says."""
    return printable(f"code {reply.error.code}: {reply.error.reason or 'no reason'}", LONGEST_MESSAGE)
