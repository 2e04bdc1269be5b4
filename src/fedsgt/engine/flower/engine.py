"""The Flower engine: few, fat rounds. All modules that can be trained now go to a client in one message."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

from flwr.app import Message
from flwr.serverapp import Grid

from fedsgt.config.model import Engine as Settings
from fedsgt.engine.aggregate import RefusedUpdate, check, check_distance
from fedsgt.engine.flower.wire import Answer, Job, Order, decode_answer, encode_order, say, size_of, text_of
from fedsgt.engine.server import Server, client_seed
from fedsgt.engine.task import Notify, Result, RoundFailed, Task, Tensors, Update
from fedsgt.engine.traffic import Traffic
from fedsgt.errors import BackboneChanged, InputError

ALL_AT_ONCE = 1_000_000
PATIENCE = 60.0  # seconds for a last word with each node
Trouble: TypeAlias = Callable[[str, str], Any]
"""Told of a client that cannot or may not take part, and why."""


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


@dataclass(eq=False)
class Open:
    """A round of one module under way."""

    task: Task
    start: Tensors = field(repr=False)
    waiting: set[str]
    updates: list[Update] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    cancelled: bool = False


@dataclass
class Flight:
    """A message to a client that is not answered yet."""

    client: str
    rounds: list[Open]
    sent: float
    carried: frozenset[str]
    """Modules that went along."""


class FlowerEngine:
    """Tasks gather until an answer is asked for; then all go out, and the answers come in any order.

    `nodes` tells the node of each client that is connected at the moment.
    """

    def __init__(
        self,
        grid: Grid,
        nodes: Callable[[], Mapping[str, int]],
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
        self.done: deque[Result | RoundFailed] = deque()
        self.sent: dict[str, set[str]] = {}

    def submit(self, task: Task) -> None:
        clients = {name for name, held in task.slices.items() if self.fleet.records(name, held)}
        if not clients:
            raise InputError(f"module {task.key[:12]}: no client has a record in its groups")
        self.gathered.append(Open(task, self.server.start(task), clients))

    def wait(self) -> Result | None:
        if not self.done and not self.flights and not self.absent:
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
        for opened in (*self.gathered, *under_way, *(o for held in self.absent.values() for o in held)):
            opened.cancelled |= opened.task.key == key
        self.gathered = [opened for opened in self.gathered if not opened.cancelled]
        kept = [entry for entry in self.done if entry.key != key]
        self.done = deque(kept)

    def finish(self, state: Tensors) -> Tensors:
        return self.server.stack.finish(state)

    def close(self) -> None:
        """Every node that took part checks its backbone, and destroys the modules that it was sent."""
        nodes = self.nodes()
        told = {client: nodes[client] for client in self.sent if client in nodes}
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
        """One message to each client, with all that waits for it."""
        rounds, self.gathered = self.gathered, []
        if rounds:
            self.traffic.rounds += 1
        for client in sorted({name for opened in rounds for name in opened.waiting}):
            self._send(client, [opened for opened in rounds if client in opened.waiting])

    def _send(self, client: str, rounds: list[Open]) -> None:
        node = self.nodes().get(client)
        if node is None:
            self._missing(client, rounds, "is not connected")
            return
        order = self._order(client, rounds)
        content = encode_order(order)
        ttl = None if self.settings.absent == "wait" else self.settings.timeout + PATIENCE
        (name,) = self.grid.push_messages([Message(content, node, "train", ttl=ttl)])
        if not name:
            self._missing(client, rounds, "could not be sent its order")
            return
        self.flights[name] = Flight(client, rounds, time.monotonic(), frozenset(order.modules))
        line = self.traffic.line(client)
        line.messages += 1
        line.modules += len(rounds)
        line.down += size_of(content)

    def _order(self, client: str, rounds: list[Open]) -> Order:
        """Frozen modules go along once: later rounds carry only what the node has not got."""
        needed = list(dict.fromkeys(key for opened in rounds for key in opened.task.parents))
        held = self.sent.setdefault(client, set())
        held &= self.fleet.present()
        modules = {key: self.server.read_module(key) for key in needed if key not in held}
        held.update(modules)
        jobs = tuple(_job(client, opened) for opened in rounds)
        hashes = {key: self.fleet.hash_of(key) for key in needed}
        return Order(client, jobs, hashes, modules, tuple(sorted(held)), self.fleet.about(client))

    def _listen(self) -> None:
        """Take in what has arrived; give up on who is late; ask again who came back."""
        replies = list(self.grid.pull_messages(list(self.flights))) if self.flights else []
        for reply in replies:
            flight = self.flights.pop(reply.metadata.reply_to_message_id, None)
            if flight is not None:
                self._take(flight, reply)
        self._drop_late()
        if self.absent:
            self._ask_again()
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
            self._send(client, [opened for opened in flight.rounds if not opened.cancelled])
        else:
            self._admit(flight, answer)

    def _admit(self, flight: Flight, answer: Answer) -> None:
        for opened in flight.rounds:
            key = opened.task.key
            if key in answer.problems:
                self._cannot(flight.client, opened, answer.problems[key])
            elif key not in answer.updates:
                self._refuse(flight.client, [opened], "there is no update in its answer")
            elif not opened.cancelled:
                self._use(opened, answer.updates[key])

    def _use(self, opened: Open, update: Update) -> None:
        """An update is used if it is what was asked for, on the records that its client registered."""
        task, client = opened.task, update.client
        try:
            check(opened.start, update)
            check_distance(opened.start, update, self.settings.largest_update)
            registered = self.fleet.records(client, task.slices[client])
            if update.records != registered:
                raise RefusedUpdate(client, f"it says {update.records} records; it registered {registered}")
        except RefusedUpdate as refused:
            self._refuse(client, [opened], refused.reason)
            return
        opened.updates.append(update)
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
        left = [opened for opened in rounds if not opened.cancelled]
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

    def _ask_again(self) -> None:
        nodes = self.nodes()
        for client in [client for client in self.absent if client in nodes]:
            rounds = [opened for opened in self.absent.pop(client) if not opened.cancelled]
            if rounds:
                self._send(client, rounds)

    def _heard(self, opened: Open, client: str) -> None:
        opened.waiting.discard(client)
        if opened.waiting or opened.cancelled:
            return
        if not opened.updates:
            self._fail(opened)
            return
        self.done.append(self.server.end(opened.task, opened.start, opened.updates))
        opened.cancelled = True  # whatever else comes of it comes too late

    def _fail(self, opened: Open) -> None:
        if not opened.cancelled:
            task = opened.task
            why = "; ".join(opened.reasons)
            error = InputError(f"module {task.key[:12]}, round {task.round}: no update to go on with: {why}")
            self.done.append(RoundFailed(task.key, error))
            opened.cancelled = True

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
