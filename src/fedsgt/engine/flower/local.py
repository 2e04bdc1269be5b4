"""The Flower engine on this machine alone: over nodes in this process, or simulated on Ray."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import cast

from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import Grid

from fedsgt.engine.events import Listener
from fedsgt.engine.flower.engine import FlowerEngine
from fedsgt.engine.flower.internals import ErrorCode, Run, TaskIdentity, set_message_id
from fedsgt.engine.flower.node import PoolNode, SharedStore, make_client_app
from fedsgt.engine.flower.orders import Connection, RunInfo
from fedsgt.engine.pool import Inline, Pool, Processes
from fedsgt.engine.rounds import RoundStarter
from fedsgt.engine.worker import Setup

RUN = 1  # id of the only run of a local grid
EACH = 16  # orders under way for each process of a simulation


class LocalGrid(Grid):
    """A grid without a network: hands messages to an app in this process, one after another.

    Nodes are numbered from 1. A message is worked on when its answer is asked for.
    """

    def __init__(self, app: Callable[[Message, Context], Message], nodes: int) -> None:
        self.app, self.nodes = app, range(1, nodes + 1)
        self.contexts = {
            node: Context(run_id=RUN, node_id=node, node_config={}, state=RecordDict(), run_config={})
            for node in self.nodes
        }
        self.queue: deque[tuple[str, Message]] = deque()
        self._run = Run.create_empty(RUN)
        # A message takes its sender from here; Flower's own processes fill it in.
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
        """Return the answer to the first message that waits; messages not asked for any more are dropped."""
        wanted = set(message_ids)
        self.queue = deque(entry for entry in self.queue if entry[0] in wanted)
        if not self.queue:
            return []
        _, message = self.queue.popleft()
        try:
            return [self.app(message, self.contexts[message.metadata.dst_node_id])]
        except Exception as error:  # a real node, too, answers with what went wrong
            code = ErrorCode.CLIENT_APP_RAISED_EXCEPTION
            return [Message(Error(code, f"{type(error).__name__}: {error}"), reply_to=message)]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        names = list(self.push_messages(messages))
        return [reply for _ in names for reply in cast(list[Message], self.pull_messages(names))]


def connections_of(grid: Grid, clients: Mapping[str, object]) -> dict[str, Connection]:
    """Give each client a node of the grid; any node can play any client."""
    return dict(zip(sorted(clients), map(Connection, sorted(grid.get_node_ids())), strict=True))


@contextmanager
def open_local(setup: Setup, starter: RoundStarter, info: RunInfo, tell: Listener) -> Iterator[FlowerEngine]:
    """Open an engine over nodes in this process, which share its workers."""
    workers = setup.run.engine.workers
    pool: Pool = Processes(setup, workers) if workers else Inline(setup)
    node = PoolNode(pool, SharedStore())
    grid = LocalGrid(make_client_app(lambda context: node), len(setup.slices))
    try:
        nodes = connections_of(grid, setup.slices)
        with FlowerEngine(grid, lambda: nodes, starter, info, setup.run.engine, tell) as engine:
            yield engine
    finally:
        pool.stop()


@contextmanager
def open_simulated(
    setup: Setup, starter: RoundStarter, info: RunInfo, tell: Listener
) -> Iterator[FlowerEngine]:
    """Open an engine over nodes on Ray, on as many processes as the engine has workers."""
    from fedsgt.engine.flower.simulation import simulated

    processes = max(1, setup.run.engine.workers)
    with simulated(setup, len(setup.slices), processes) as grid:
        nodes = connections_of(grid, setup.slices)
        with FlowerEngine(
            grid,
            lambda: nodes,
            starter,
            info,
            setup.run.engine,
            tell,
            pause=0.05,
            at_once=EACH * processes,
        ) as engine:
            yield engine
