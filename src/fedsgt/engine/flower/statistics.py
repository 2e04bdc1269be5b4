"""Gathers statistics from the clients' nodes: one message to each, whose answer may be anything."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from flwr.app import Message, RecordDict

from fedsgt.engine.events import ClientTrouble
from fedsgt.engine.flower.messages import size_of
from fedsgt.engine.flower.orders import Connection
from fedsgt.engine.flower.statistic_messages import (
    ChainQuestion,
    StatisticAnswer,
    StatisticOrder,
    decode_answer,
    encode_order,
)
from fedsgt.engine.flower.transport import (
    AWAY,
    END_SECONDS,
    LONGEST_WAIT,
    LOOK_SECONDS,
    MOST_FAILURES,
    MOST_UNANSWERED,
    Transport,
    reason,
)
from fedsgt.engine.rounds import client_order
from fedsgt.engine.task import StatisticTask
from fedsgt.errors import InputError
from fedsgt.stack.stack import Stack
from fedsgt.stack.statistics import RefusedStatistic, Statistic, check_statistic
from fedsgt.words import LONGEST_MESSAGE, counted, printable

Made: TypeAlias = Iterator[tuple[StatisticTask, Statistic]]


@dataclass(frozen=True)
class SentQuestion:
    """A message on its way to a client, until its answer comes or is given up."""

    client: str
    tasks: list[StatisticTask]
    time: float
    modules: frozenset[str]
    """Keys of the modules that went along."""
    largest: int
    """Bytes of the largest answer that is read."""
    connection: Connection


class StatisticGatherer:
    """Asks each client once for all its statistics, and waits as the setting `engine.absent` says.

    A client that takes no part, or sends what no records can have, is told by name and left out.
    """

    def __init__(self, transport: Transport, stack: Stack, pause: float) -> None:
        self.transport, self.stack, self.pause = transport, stack, pause
        self.heads, self.settings = transport.info.heads, transport.settings
        labels = stack.backbone.model.config.num_labels
        assert labels is not None
        self.labels: int = labels
        self.outbox: deque[tuple[str, list[StatisticTask]]] = deque()
        self.unanswered: dict[str, SentQuestion] = {}
        """Messages under way, by Flower's id."""
        self.away: dict[str, list[StatisticTask]] = {}
        """Tasks of clients that are waited for."""
        self.failures: Counter[str] = Counter()
        self.looked = time.monotonic()

    def gather(self, tasks: Sequence[StatisticTask]) -> Made:
        """Yield each task's statistic as it arrives."""
        self.transport.packer.begin_round()
        asked = [task for task in tasks if self._records(task)]
        for task in tasks:
            if not self._records(task):  # nobody needs to be asked; a client without records may be gone
                yield task, self._expected(task)
        self._fill_outbox(asked)
        while self.outbox or self.unanswered or self.away:
            self._send_some()
            replies = self.transport.pull(self.unanswered) if self.unanswered else []
            for reply in replies:
                yield from self._take(reply)
            self._drop_late()
            self._look_around()
            if not replies and (self.unanswered or self.away):
                time.sleep(self.pause)

    def _fill_outbox(self, tasks: Sequence[StatisticTask]) -> None:
        """Put each client's tasks into the outbox, chain by chain, so that a worker folds a chain once."""
        chains = {task.chain: place for place, task in reversed([*enumerate(tasks)])}
        for key in dict.fromkeys(key for chain in chains for key in chain):
            self.transport.packer.check_module(key)  # an error before anybody is asked
        records = {task.client: self._records(task) for task in tasks}
        ordered = sorted(tasks, key=lambda task: chains[task.chain])
        for client in client_order(records):
            self.outbox.append((client, [task for task in ordered if task.client == client]))

    def _send_some(self) -> None:
        while self.outbox and self._has_room():
            self._send(*self.outbox.popleft())

    def _has_room(self) -> bool:
        """Whether the server can hold another answer."""
        most = self.transport.at_once
        if most is not None and len(self.unanswered) >= most:
            return False
        return sum(sent.largest for sent in self.unanswered.values()) < MOST_UNANSWERED

    def _send(self, client: str, tasks: list[StatisticTask]) -> None:
        transport = self.transport
        connection = transport.connections().get(client)
        if connection is None:
            self._missing(client, tasks, "is not connected")
            return
        packed = transport.packer.pack(client, [key for task in tasks for key in task.chain])
        questions = tuple(ChainQuestion(task.chain, task.slices) for task in tasks)
        order = StatisticOrder(
            client, questions, packed.hashes, packed.modules, packed.keep, transport.info.about(client)
        )
        content = encode_order(order, transport.packer.encode)
        ttl = LONGEST_WAIT if self.settings.absent == "wait" else self.settings.timeout + END_SECONDS
        message = Message(content, connection.node, "query.statistics", ttl=ttl)
        (name,) = transport.grid.push_messages([message])
        if not name:
            transport.packer.lost(client)
            self._missing(client, tasks, "could not be asked")
            return
        largest = self._most_bytes(tasks)
        sent = SentQuestion(client, tasks, time.monotonic(), frozenset(packed.modules), largest, connection)
        self.unanswered[name] = sent
        transport.traffic.of_client(client).down += size_of(content)

    def _take(self, reply: Message) -> Made:
        """Read a client's answer: statistics, or the modules that its node lacks."""
        sent = self.unanswered.pop(reply.metadata.reply_to_message_id)
        if reply.has_error():
            self._failed(sent, reply)
            return
        self.failures.pop(sent.client, None)
        self.transport.traffic.of_client(sent.client).up += size_of(reply.content)
        try:
            answer = self._read(sent, reply.content)
        except InputError as error:
            self._trouble(sent.client, "statistics refused", str(error))
            return
        if answer.declined:
            # It may not have kept what went along.
            self.transport.packer.lost(sent.client, [*sent.modules])
            self._trouble(sent.client, "takes no part in statistics", answer.declined)
        elif answer.lacks:
            self.transport.packer.lost(sent.client, answer.lacks)
            self._send(sent.client, sent.tasks)
        else:
            yield from self._admit(sent, answer)

    def _read(self, sent: SentQuestion, content: RecordDict) -> StatisticAnswer:
        answer = decode_answer(content, sent.largest)
        needed = {key for task in sent.tasks for key in task.chain}
        # Otherwise it would be asked again without end.
        if not (needed - sent.modules).issuperset(answer.lacks):
            raise InputError("it says that it lacks a module that it has or does not need")
        return answer

    def _admit(self, sent: SentQuestion, answer: StatisticAnswer) -> Made:
        """Yield from an answer what was asked for and can be; tell each reason for others once."""
        problems: Counter[str] = Counter()
        for number, task in enumerate(sent.tasks):
            if number in answer.problems:
                problems[answer.problems[number]] += 1
                continue
            try:
                if number not in answer.statistics:
                    raise RefusedStatistic(task.client, "it is not in its answer")
                self._check(task, answer.statistics[number])
            except RefusedStatistic as refused:
                problems[f"refused: {refused.reason}"] += 1
            else:
                yield task, answer.statistics[number]
        for why, times in sorted(problems.items()):
            self._trouble(sent.client, f"{counted(times, 'statistic')} left out", why)

    def _check(self, task: StatisticTask, found: Statistic) -> None:
        """Raise `RefusedStatistic` unless some records, of the number that was registered, can have it."""
        records = self._records(task)
        # Where a sample is taken, only the client knows its number.
        if self.heads.share == 1 and found.records != records:
            told = counted(found.records, "record")
            raise RefusedStatistic(task.client, f"it says {told}; it registered {records}")
        check_statistic(found, self._expected(task), records, task.client)

    def _failed(self, sent: SentQuestion, reply: Message) -> None:
        """Note an error in the place of an answer: the client is away, or its program failed."""
        self.transport.packer.lost(sent.client)  # a new process of the node begins with an empty cache
        why = f"gave no answer ({reason(reply)})"
        self.failures[sent.client] += reply.error.code not in AWAY
        if self.failures[sent.client] >= MOST_FAILURES:
            self._trouble(sent.client, "statistics left out", why)
        else:
            self._missing(sent.client, sent.tasks, why)

    def _missing(self, client: str, tasks: list[StatisticTask], why: str) -> None:
        """Wait for a client that is away, or leave it out, as the settings say."""
        if self.settings.absent == "wait":
            self.transport.tell(ClientTrouble(client, f"{why}; waiting for it"))
            self.away[client] = tasks
        else:
            self._trouble(client, "statistics left out", why)

    def _drop_late(self) -> None:
        """Give up messages that were not answered within the timeout."""
        if self.settings.absent == "wait":
            return
        latest = time.monotonic() - self.settings.timeout
        for name in [name for name, sent in self.unanswered.items() if sent.time < latest]:
            sent = self.unanswered.pop(name)
            self._missing(sent.client, sent.tasks, f"has not answered for {self.settings.timeout:g} s")

    def _look_around(self) -> None:
        """Ask clients again that came back, or that connected anew and so have lost what they were asked."""
        if time.monotonic() < self.looked + LOOK_SECONDS:
            return
        connections, self.looked = self.transport.connections(), time.monotonic()
        returned = [client for client in self.away if client in connections]
        if returned:  # a deletion may have destroyed modules since
            self.transport.packer.begin_round()
        for client in returned:
            self._send(client, self.away.pop(client))
        for name, sent in list(self.unanswered.items()):
            # A client that is not connected just now may still answer: only another connection is proof.
            if connections.get(sent.client, sent.connection) != sent.connection:
                del self.unanswered[name]
                self.transport.packer.lost(sent.client)
                self._missing(sent.client, sent.tasks, "was started again")

    def _records(self, task: StatisticTask) -> int:
        return self.transport.info.records(task.client, task.slices)

    def _expected(self, task: StatisticTask) -> Statistic:
        """Return the statistic of no record, which has the right shapes."""
        return Statistic.empty(self.stack.feature_width(task.chain), self.labels, self.heads.bits)

    def _most_bytes(self, tasks: Sequence[StatisticTask]) -> int:
        # An honest answer has these arrays, with a header each (4 kB is plenty), and some text.
        expected = map(self._expected, tasks)
        return 65536 + sum(found.gram.nbytes + found.cross.nbytes + 8192 for found in expected)

    def _trouble(self, client: str, what: str, why: str) -> None:
        self.transport.tell(ClientTrouble(client, f"{what}: {printable(why, LONGEST_MESSAGE)}"))
