"""Carries orders to the clients' nodes and answers back while clients come, go or are late."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from fedsgt.config.sections import Engine as Settings
from fedsgt.engine.events import ClientTrouble, Listener
from fedsgt.engine.flower.internals import ErrorCode
from fedsgt.engine.flower.messages import encode_order, size_of, text_message
from fedsgt.engine.flower.orders import Connection, DroppedOut, FlowerRound, OrderPacker, RunInfo, SentOrder
from fedsgt.engine.flower.traffic import Traffic
from fedsgt.engine.rounds import RoundStarter, client_order
from fedsgt.words import LONGEST_MESSAGE, printable

MOST_UNANSWERED = 256 << 20  # bytes of orders under way: the server holds them in memory
MOST_FAILURES = 3  # failures in a row, after which a client's program is taken to fail always
END_SECONDS = 60.0  # to wait for the answers at the end of a training
# A client that is waited for may come back after weeks; its order must not have expired by then.
LONGEST_WAIT = 30 * 86400.0
LOOK_SECONDS = 2.0  # between two looks whether nodes are still those that were asked
# Errors by which Flower says that a node cannot be reached; all others are failures of its program.
AWAY = (ErrorCode.NODE_UNAVAILABLE, ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE)
Arrival: TypeAlias = tuple[SentOrder, RecordDict]


class Transport:
    """Sends one order a round to each client, and gathers answers and drop-outs for the engine.

    `connections` returns the clients that are connected at the moment. With the setting `absent = wait`, a
    client that is away is asked again once it is back; otherwise it has dropped out. At most `at_once` orders
    are under way: a simulation looks through all its messages again and again, so that many make it slow.
    """

    def __init__(
        self,
        grid: Grid,
        connections: Callable[[], Mapping[str, Connection]],
        starter: RoundStarter,
        info: RunInfo,
        settings: Settings,
        tell: Listener,
        at_once: int | None = None,
    ) -> None:
        self.grid, self.connections, self.info, self.settings = grid, connections, info, settings
        self.tell, self.traffic, self.at_once = tell, Traffic(), at_once
        self.packer = OrderPacker(starter.read_module, info)
        self.outbox: deque[tuple[str, list[FlowerRound]]] = deque()
        self.unanswered: dict[str, SentOrder] = {}
        """Orders under way, by Flower's id of the message."""
        self.away: dict[str, list[FlowerRound]] = {}
        """Rounds for which a client is waited for."""
        self.dropped_out: list[DroppedOut] = []
        self.broken: list[tuple[FlowerRound, Exception]] = []
        """Rounds whose parent modules are gone, with the error."""
        self.early: list[Message] = []
        """Answers to orders that came while others were waited for."""
        self.failures: Counter[str] = Counter()
        self.looked = time.monotonic()

    @property
    def busy(self) -> bool:
        return bool(self.outbox or self.unanswered or self.away or self.dropped_out or self.broken)

    def rounds(self) -> Iterator[FlowerRound]:
        """Yield every round that a client is asked for, or will be."""
        for rounds in (
            *(rounds for _, rounds in self.outbox),
            *(order.rounds for order in self.unanswered.values()),
            *self.away.values(),
        ):
            yield from rounds

    def drop_finished(self) -> None:
        """Stop waiting for answers to rounds that are all over."""
        self.away = {client: rounds for client, rounds in self.away.items() if not _all_over(rounds)}
        self.unanswered = {
            name: order for name, order in self.unanswered.items() if not _all_over(order.rounds)
        }

    def begin_round(self, rounds: Sequence[FlowerRound]) -> None:
        """Put one order for each client into the outbox, with all rounds that wait for it."""
        self.packer.begin_round()
        self.traffic.rounds += 1
        records: dict[str, int] = {}
        for opened in rounds:
            for client, number in opened.records.items():
                records[client] = max(number, records.get(client, 0))
        # In the order in which updates are summed up: fewer have to be held until their turn comes.
        self.outbox.extend(
            (client, [opened for opened in rounds if client in opened.waiting])
            for client in client_order(records)
        )

    def receive(self) -> list[Arrival]:
        """Send what there is room for and return the answers that came; see to late and returned clients."""
        self._send_some()
        replies, self.early = self.early, []
        if not replies and self.unanswered:
            replies = list(self.grid.pull_messages(list(self.unanswered)))
        arrivals: list[Arrival] = []
        for reply in replies:
            order = self.unanswered.pop(reply.metadata.reply_to_message_id, None)
            if order is None:
                continue  # an answer to nothing that is asked any more
            if reply.has_error():
                self._failed(order, reply)
            else:
                self.failures.pop(order.client, None)
                self.traffic.of_client(order.client).up += size_of(reply.content)
                arrivals.append((order, reply.content))
        self._drop_late()
        if self.away or time.monotonic() > self.looked + LOOK_SECONDS:
            self._look_around()
        return arrivals

    def pull(self, names: Collection[str]) -> list[Message]:
        """Return the answers that came to messages that are no orders; `receive` returns those to orders."""
        known = {reply.metadata.reply_to_message_id for reply in self.early}
        orders = self.unanswered.keys() - known
        # All are asked for: a grid may forget messages that nobody asks for any more.
        replies = list(self.grid.pull_messages([*names, *orders]))
        self.early.extend(reply for reply in replies if reply.metadata.reply_to_message_id in orders)
        return [reply for reply in replies if reply.metadata.reply_to_message_id in names]

    def send_again(self, order: SentOrder, lacks: Sequence[str]) -> None:
        """Send an order with the modules that the node has lost, for example by a restart."""
        self.packer.lost(order.client, lacks)
        self._send(order.client, order.rounds, self.connections())

    def end_nodes(self, pause: float) -> Iterator[tuple[str, Message | None]]:
        """Tell the nodes that were sent orders that training is over; yield the answer of each, or None."""
        connections = self.connections()
        # In a simulation every process plays many clients, and so many messages reach each of them.
        asked = [client for client in self.packer.sent if client in connections][: self.at_once]
        messages = [
            Message(text_message(self.info.about(client)), connections[client].node, "query.end")
            for client in asked
        ]
        names = dict(zip(self.grid.push_messages(messages), asked, strict=True))
        end = time.monotonic() + END_SECONDS
        while names and time.monotonic() < end:
            replies = list(self.grid.pull_messages(list(names)))
            for reply in replies:
                client = names.pop(reply.metadata.reply_to_message_id, None)
                if client is not None:
                    yield client, reply
            if not replies:
                time.sleep(pause)
        away = [client for client in self.packer.sent if client not in connections]
        for client in (*names.values(), *away):
            yield client, None

    def _send_some(self) -> None:
        """Send orders from the outbox while there is room for them."""
        # Asked for only if there is something to send: over a network this is a call to the SuperLink.
        connections: Mapping[str, Connection] | None = None
        while self.outbox and self._has_room():
            connections = self.connections() if connections is None else connections
            self._send(*self.outbox.popleft(), connections)

    def _has_room(self) -> bool:
        if self.at_once is not None and len(self.unanswered) >= self.at_once:
            return False
        return sum(order.size for order in self.unanswered.values()) < MOST_UNANSWERED

    def _send(self, client: str, rounds: list[FlowerRound], connections: Mapping[str, Connection]) -> None:
        rounds = [opened for opened in rounds if not opened.over and self._has_parents(opened)]
        if not rounds:
            return
        connection = connections.get(client)
        if connection is None:
            self._missing(client, rounds, "is not connected")
            return
        order = self.packer.order(client, rounds)
        content = encode_order(order, self.packer.encode)
        ttl = LONGEST_WAIT if self.settings.absent == "wait" else self.settings.timeout + END_SECONDS
        (name,) = self.grid.push_messages([Message(content, connection.node, "train", ttl=ttl)])
        if not name:
            self._missing(client, rounds, "could not be sent its order")
            return
        sent = SentOrder(
            client, rounds, time.monotonic(), frozenset(order.modules), size_of(content), connection
        )
        self.unanswered[name] = sent
        counts = self.traffic.of_client(client)
        counts.messages += 1
        counts.modules += len(rounds)
        counts.down += sent.size

    def _has_parents(self, opened: FlowerRound) -> bool:
        """Whether the parent modules are still there; if not, the build decides whether that is an error."""
        try:
            self.packer.check_parents(opened)
        except Exception as error:
            self.broken.append((opened, error))
            opened.over = True
        return not opened.over

    def _failed(self, order: SentOrder, reply: Message) -> None:
        """Note an error in the place of an answer: the client is away, or its program failed."""
        self.packer.lost(order.client)  # a new process of the node begins with an empty cache
        why = f"gave no answer ({reason(reply)})"
        self.failures[order.client] += reply.error.code not in AWAY
        if self.failures[order.client] >= MOST_FAILURES:
            self.dropped_out.append(DroppedOut(order.client, order.rounds, why, final=True))
        else:
            self._missing(order.client, order.rounds, why)

    def _missing(self, client: str, rounds: list[FlowerRound], why: str) -> None:
        """Wait for a client that is away, or let it drop out, as the settings say."""
        left = [opened for opened in rounds if not opened.over]
        if self.settings.absent == "wait" and left:
            self.tell(ClientTrouble(client, f"{why}; waiting for it"))
            self.away.setdefault(client, []).extend(left)
        elif left:
            self.dropped_out.append(DroppedOut(client, left, why, final=False))

    def _drop_late(self) -> None:
        """Give up orders that were not answered within the timeout."""
        if self.settings.absent == "wait":
            return
        latest = time.monotonic() - self.settings.timeout
        for name in [name for name, order in self.unanswered.items() if order.time < latest]:
            order = self.unanswered.pop(name)
            self._missing(order.client, order.rounds, f"has not answered for {self.settings.timeout:g} s")

    def _look_around(self) -> None:
        """Ask clients again that came back, or that connected anew and so have lost their orders."""
        connections, self.looked = self.connections(), time.monotonic()
        for client in [client for client in self.away if client in connections]:
            self._send(client, self.away.pop(client), connections)
        for name, order in list(self.unanswered.items()):
            # A client that is not connected just now may still answer: only another connection is proof.
            if connections.get(order.client, order.connection) != order.connection:
                del self.unanswered[name]
                self.packer.lost(order.client)
                self._missing(order.client, order.rounds, "was started again")


def _all_over(rounds: Sequence[FlowerRound]) -> bool:
    return all(opened.over for opened in rounds)


def reason(reply: Message) -> str:
    """Return why a message has no answer, as Flower or the node says."""
    return printable(f"code {reply.error.code}: {reply.error.reason or 'no reason'}", LONGEST_MESSAGE)
