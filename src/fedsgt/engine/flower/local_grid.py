"""Flower without a network: a Grid that hands messages to a ClientApp in this process, one after another."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Iterable
from typing import cast

from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import Grid

from fedsgt.engine.flower.internals import Run, TaskIdentity, set_message_id

RUN = 1  # there is no other


class LocalGrid(Grid):
    """Nodes are numbered from 1; a message is worked on when its answer is asked for."""

    def __init__(self, app: Callable[[Message, Context], Message], nodes: int) -> None:
        self.app, self.nodes = app, range(1, nodes + 1)
        self.contexts = {
            node: Context(run_id=RUN, node_id=node, node_config={}, state=RecordDict(), run_config={})
            for node in self.nodes
        }
        self.queue: deque[tuple[str, Message]] = deque()
        self._run = Run.create_empty(RUN)
        # Messages ask this for their sender.
        TaskIdentity.task_id = TaskIdentity.run_id = RUN
        TaskIdentity.node_id = 0

    def set_run(self, run: Run) -> None:
        self._run = run

    @property
    def run(self) -> Run:
        return self._run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        names = []
        for message in messages:
            name = secrets.token_hex(16)
            set_message_id(message, name)
            self.queue.append((name, message))
            names.append(name)
        return names

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """The answer to the first message that waits."""
        wanted = set(message_ids)
        self.queue = deque(entry for entry in self.queue if entry[0] in wanted)
        if not self.queue:
            return []
        _, message = self.queue.popleft()
        try:
            return [self.app(message, self.contexts[message.metadata.dst_node_id])]
        except Exception as error:  # as a real node, which answers with what went wrong
            return [Message(Error(code=2, reason=f"{type(error).__name__}: {error}"), reply_to=message)]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        names = list(self.push_messages(messages))
        return [reply for _ in names for reply in cast(list[Message], self.pull_messages(names))]
