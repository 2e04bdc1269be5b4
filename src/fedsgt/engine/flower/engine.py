"""The Flower engine: few, fat rounds. All modules that can be trained now go to a client in one message."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeAlias

from flwr.app import ArrayRecord, Message
from flwr.serverapp import Grid

from fedsgt.config.model import Engine as Settings
from fedsgt.engine.aggregate import RefusedUpdate, check, check_distance, turns
from fedsgt.engine.flower.wire import (
    Answer,
    Job,
    Order,
    as_record,
    decode_answer,
    encode_order,
    say,
    size_of,
    text_of,
)
from fedsgt.engine.server import Round, Server, client_seed
from fedsgt.engine.task import Notify, Result, RoundFailed, Task, Tensors, Update
from fedsgt.engine.traffic import Traffic
from fedsgt.errors import BackboneChanged, InputError

ALL_AT_ONCE = 1_000_000
MOST_IN_FLIGHT = 256 << 20  # bytes
PATIENCE = 60.0  # seconds for a last word with each node
LOOK_SECONDS = 2.0  # between two looks whether nodes are still those that were asked
Trouble: TypeAlias = Callable[[str, str], Any]
"""Told of a client that cannot or may not take part, and why."""


class Place(NamedTuple):
    """Where a client is reached."""

    node: int
    since: str = ""
    """When it connected: whoever connects again has lost what it was asked before."""


@dataclass(frozen=True)
class Fleet:
    """What the engine has to know of the clients and of the run; of their data only counts."""

    records: Callable[[str, tuple[int, ...]], int]
    """How many records a client registered in some of its slices."""
    hash_of: Callable[[str], str]
    """Hash of a finished module."""
    present: Callable[[], frozenset[str]]
    """Keys of the modules that are there, and not destroyed."""
    about: Callable[[str], Mapping[str, Any]] = lambda client: {}
    """What a client's node is told of the run."""


class Open(Round):
    """A round of one module under way, and why some could not take part."""

    def __init__(self, task: Task, start: Tensors, records: Mapping[str, int]) -> None:
        super().__init__(task, start, records)
        self.records = dict(records)
        self.reasons: list[str] = []
        self.over = False


@dataclass
class Flight:
    """A message to a client that is not answered yet."""

    client: str
    rounds: list[Open]
    sent: float
    carried: frozenset[str]
    """Modules that went along."""
    size: int
    """Bytes."""
    place: Place


class FlowerEngine:
    """Tasks gather until an answer is asked for; then all go out, and the answers come in any order.

    `nodes` tells the node of each client that is connected at the moment.
    """

    def __init__(
        self,
        grid: Grid,
        nodes: Callable[[], Mapping[str, Place]],
        server: Server,
        fleet: Fleet,
        settings: Settings,
        notify: Notify = lambda task, update: None,
        trouble: Trouble = lambda client, what: None,
        pause: float = 0.1,
    ) -> None:
        self.grid, self.nodes, self.server, self.fleet, self.settings = grid, nodes, server, fleet, settings
        self.notify, self.trouble, self.pause = notify, trouble, pause
        self.capacity = ALL_AT_ONCE
        self.traffic = Traffic()
        self.gathered: list[Open] = []
        self.flights: dict[str, Flight] = {}
        self.absent: dict[str, list[Open]] = {}
        self.outbox: deque[tuple[str, list[Open]]] = deque()
        self.done: deque[Result | RoundFailed] = deque()
        self.sent: dict[str, set[str]] = {}
        self.looked = time.monotonic()
        self.present: frozenset[str] = frozenset()
        self.frozen: dict[str, tuple[Tensors, str]] = {}
        self.records: dict[int, tuple[Tensors, ArrayRecord]] = {}

    def submit(self, task: Task) -> None:
        held = {client: self.fleet.records(client, slices) for client, slices in task.slices.items()}
        records = {client: number for client, number in held.items() if number}
        if not records:
            raise InputError(f"module {task.key[:12]}: no client has a record in its groups")
        self.gathered.append(Open(task, self.server.start(task), records))

    def wait(self) -> Result | None:
        if not (self.done or self.flights or self.absent or self.outbox):
            self._depart()
        if not self.done:
            self._listen()
        if not self.done:
            return None
        finished = self.done.popleft()
        if isinstance(finished, RoundFailed):
            raise finished
        return finished

    def cancel(self, key: str) -> None:
        under_way = [opened for flight in self.flights.values() for opened in flight.rounds]
        waiting = [opened for rounds in self.absent.values() for opened in rounds]
        waiting += [opened for _, rounds in self.outbox for opened in rounds]
        for opened in (*self.gathered, *under_way, *waiting):
            opened.over |= opened.task.key == key
        self.gathered = [opened for opened in self.gathered if not opened.over]
        kept = [entry for entry in self.done if entry.key != key]
        self.done = deque(kept)

    def finish(self, state: Tensors) -> Tensors:
        return self.server.stack.finish(state)

    def close(self) -> None:
        """Every node that took part checks its backbone, and destroys the modules that it was sent."""
        nodes = self.nodes()
        told = {client: nodes[client].node for client in self.sent if client in nodes}
        asked = {
            client: Message(say(dict(self.fleet.about(client))), node, "query.end")
            for client, node in told.items()
        }
        names = dict(zip(self.grid.push_messages(list(asked.values())), asked, strict=True))
        end = time.monotonic() + PATIENCE
        while names and time.monotonic() < end:
            replies = list(self.grid.pull_messages(list(names)))
            for reply in replies:
                self._last_word(names.pop(reply.metadata.reply_to_message_id), reply)
            if not replies:
                time.sleep(self.pause)
        for client in (*names.values(), *(client for client in self.sent if client not in nodes)):
            self.trouble(client, "did not answer at the end; its node checks itself when it starts again")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()

    def _depart(self) -> None:
        """One message to each client, with all that waits for it; the order is that of summing up."""
        rounds, self.gathered = self.gathered, []
        self.present = self.fleet.present()
        self.frozen.clear()
        self.records.clear()
        self.traffic.rounds += 1 if rounds else 0
        records: dict[str, int] = {}
        for opened in rounds:
            for client, number in opened.records.items():
                records[client] = max(number, records.get(client, 0))
        self.outbox.extend(
            (client, [opened for opened in rounds if client in opened.waiting]) for client in turns(records)
        )

    def _send_some(self) -> None:
        """No more at once than memory has room for, be there ever so many clients."""
        nodes: Mapping[str, Place] | None = None
        while self.outbox and sum(flight.size for flight in self.flights.values()) < MOST_IN_FLIGHT:
            nodes = self.nodes() if nodes is None else nodes
            self._send(*self.outbox.popleft(), nodes)

    def _send(self, client: str, rounds: list[Open], nodes: Mapping[str, Place]) -> None:
        rounds = [opened for opened in rounds if not opened.over and self._stands(opened)]
        if not rounds:
            return
        place = nodes.get(client)
        if place is None:
            self._missing(client, rounds, "is not connected")
            return
        order = self._order(client, rounds)
        content = encode_order(order, self._encoded)
        ttl = None if self.settings.absent == "wait" else self.settings.timeout + PATIENCE
        (name,) = self.grid.push_messages([Message(content, place.node, "train", ttl=ttl)])
        if not name:
            self._missing(client, rounds, "could not be sent its order")
            return
        size = size_of(content)
        self.flights[name] = Flight(client, rounds, time.monotonic(), frozenset(order.modules), size, place)
        line = self.traffic.line(client)
        line.messages += 1
        line.modules += len(rounds)
        line.down += size

    def _stands(self, opened: Open) -> bool:
        """Whether the modules below are still there; if not, the build knows whether that is as it should."""
        try:
            for key in opened.task.parents:
                self._frozen(key)
        except Exception as error:
            self.done.append(RoundFailed(opened.task.key, error))
            opened.over = True
        return not opened.over

    def _frozen(self, key: str) -> tuple[Tensors, str]:
        """A finished module and its hash, read once a round."""
        if key not in self.frozen:
            self.frozen[key] = self.server.read_module(key), self.fleet.hash_of(key)
        return self.frozen[key]

    def _encoded(self, tensors: Tensors) -> ArrayRecord:
        """Encoded once a round, however many clients they go to; the key is good as long as they are held."""
        if id(tensors) not in self.records:
            self.records[id(tensors)] = tensors, as_record(tensors)
        return self.records[id(tensors)][1]

    def _order(self, client: str, rounds: list[Open]) -> Order:
        """Frozen modules go along once: later rounds carry only what the node has not got."""
        needed = {key: self._frozen(key) for opened in rounds for key in opened.task.parents}
        held = self.sent.setdefault(client, set())
        held &= self.present
        modules = {key: tensors for key, (tensors, _) in needed.items() if key not in held}
        held.update(modules)
        jobs = tuple(_job(client, opened) for opened in rounds)
        hashes = {key: mark for key, (_, mark) in needed.items()}
        return Order(client, jobs, hashes, modules, tuple(sorted(held)), self.fleet.about(client))

    def _listen(self) -> None:
        """Take in what has arrived; give up on who is late; ask again who came back."""
        self._send_some()
        replies = list(self.grid.pull_messages(list(self.flights))) if self.flights else []
        for reply in replies:
            flight = self.flights.pop(reply.metadata.reply_to_message_id, None)
            if flight is not None:
                self._take(flight, reply)
        self._drop_late()
        if self.absent or time.monotonic() > self.looked + LOOK_SECONDS:
            self._look_around()
        if not replies and not self.done:
            time.sleep(self.pause)

    def _take(self, flight: Flight, reply: Message) -> None:
        client = flight.client
        if reply.has_error():
            self.sent.pop(client, None)  # whatever was there may be gone
            self._missing(client, flight.rounds, f"gave no answer ({_reason(reply)})")
            return
        self.traffic.line(client).up += size_of(reply.content)
        try:
            answer = decode_answer(reply.content, client, _most_bytes(flight))
        except InputError as error:
            self._refuse(client, flight.rounds, str(error))
            return
        if not flight.carried.isdisjoint(answer.lacks):
            self._refuse(client, flight.rounds, "it says that it lacks a module that it was just sent")
        elif answer.lacks:
            self.sent[client] = self.sent.get(client, set()) - set(answer.lacks)
            self._send(client, flight.rounds, self.nodes())
        else:
            self._admit(flight, answer)

    def _admit(self, flight: Flight, answer: Answer) -> None:
        for opened in flight.rounds:
            key = opened.task.key
            if key in answer.problems:
                self._cannot(flight.client, opened, answer.problems[key])
            elif key not in answer.updates:
                self._refuse(flight.client, [opened], "there is no update in its answer")
            elif not opened.over:
                self._use(opened, answer.updates[key])

    def _use(self, opened: Open, update: Update) -> None:
        """An update is used if it is what was asked for, on the records that its client registered."""
        task, client = opened.task, update.client
        try:
            if update.records != opened.records[client]:
                told, known = update.records, opened.records[client]
                raise RefusedUpdate(client, f"it says {told} records; it registered {known}")
            check(opened.start, update)
            check_distance(opened.start, update, self.settings.largest_update)
            opened.add(update)
        except RefusedUpdate as refused:
            self._refuse(client, [opened], refused.reason)
            return
        self.notify(task, update)
        self._heard(opened, client)

    def _refuse(self, client: str, rounds: list[Open], why: str) -> None:
        """The round goes on with the others."""
        for opened in rounds:
            task = opened.task
            self.trouble(client, f"update refused (module {task.key[:12]}, round {task.round}): {why}")
            opened.reasons.append(f"client {client}: update refused: {why}")
            self._heard(opened, client)

    def _cannot(self, client: str, opened: Open, why: str) -> None:
        """The node itself says that it cannot; to ask it again would not help."""
        self.trouble(client, why)
        opened.reasons.append(f"client {client}: {why}")
        if self.settings.absent == "wait":
            self._fail(opened)
        self._heard(opened, client)

    def _missing(self, client: str, rounds: list[Open], why: str) -> None:
        waits = self.settings.absent == "wait"
        left = [opened for opened in rounds if not opened.over]
        self.trouble(client, f"{why}; {'waiting for it' if waits else 'the round goes on without it'}")
        if waits and left:
            self.absent.setdefault(client, []).extend(left)
            return
        for opened in left:
            opened.reasons.append(f"client {client} {why}")
            self._heard(opened, client)

    def _drop_late(self) -> None:
        if self.settings.absent == "wait":
            return
        latest = time.monotonic() - self.settings.timeout
        for name in [name for name, flight in self.flights.items() if flight.sent < latest]:
            flight = self.flights.pop(name)
            self._missing(flight.client, flight.rounds, f"has not answered for {self.settings.timeout:g} s")

    def _look_around(self) -> None:
        """Ask again who came back; who connected anew since it was asked will not answer any more."""
        nodes, self.looked = self.nodes(), time.monotonic()
        for client in [client for client in self.absent if client in nodes]:
            self._send(client, self.absent.pop(client), nodes)
        for name, flight in list(self.flights.items()):
            if nodes.get(flight.client, flight.place) != flight.place:
                del self.flights[name]
                self.sent.pop(flight.client, None)
                self._missing(flight.client, flight.rounds, "was started again")

    def _heard(self, opened: Open, client: str) -> None:
        opened.leave_out(client)  # unless its update is in
        if opened.waiting or opened.over:
            return
        if not opened.reports:
            self._fail(opened)
            return
        self.done.append(opened.result())
        opened.over = True  # whatever else comes of it comes too late

    def _fail(self, opened: Open) -> None:
        if not opened.over:
            task = opened.task
            why = "; ".join(opened.reasons)
            error = InputError(f"module {task.key[:12]}, round {task.round}: no update to go on with: {why}")
            self.done.append(RoundFailed(task.key, error))
            opened.over = True

    def _last_word(self, client: str, reply: Message) -> None:
        problem = _reason(reply) if reply.has_error() else text_of(reply.content).get("problem")
        if problem and not reply.has_error() and text_of(reply.content).get("backbone"):
            raise BackboneChanged(f"client {client}: {problem}")
        if problem:
            self.trouble(client, str(problem))


def _job(client: str, opened: Open) -> Job:
    task = opened.task
    slices = task.slices[client]
    return Job(task.key, task.parents, slices, task.round, client_seed(task, client), opened.start)


def _most_bytes(flight: Flight) -> int:
    """What an honest answer takes, with room for its text and the arrays' headers."""
    asked = sum(array.nbytes + 4096 for opened in flight.rounds for array in opened.start.values())
    return asked + 65536


def _reason(reply: Message) -> str:
    error = reply.error
    return f"code {error.code}: {(error.reason or 'no reason')[:200]}"
