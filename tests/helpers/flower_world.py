"""The Flower engine over nodes in this process, of which some misbehave."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from flwr.app import Context, Error, Message

from fedsgt.build.client_access import LocalClients, counted_in, run_info
from fedsgt.build.prepare import Prepared
from fedsgt.config import Config
from fedsgt.engine.events import Listener
from fedsgt.engine.flower.engine import FlowerEngine
from fedsgt.engine.flower.local import LocalGrid, connections_of
from fedsgt.engine.flower.messages import TrainingAnswer, TrainingOrder
from fedsgt.engine.flower.node import ModuleCache, Node, PoolNode, SharedStore, make_client_app
from fedsgt.engine.flower.statistic_messages import StatisticAnswer, StatisticOrder
from fedsgt.engine.pool import Inline
from fedsgt.engine.rounds import RoundStarter
from fedsgt.engine.task import Update
from fedsgt.files.tensors import Tensors
from fedsgt.runs.folder import RunFolder

Spoil = Callable[[TrainingOrder, TrainingAnswer], TrainingAnswer]
SpoilStatistics = Callable[[StatisticOrder, StatisticAnswer], StatisticAnswer]


class Odd:
    """A node that answers otherwise than it should."""

    def __init__(self, node: PoolNode, client: str, spoil: Spoil, other: SpoilStatistics) -> None:
        self.node, self.client, self.spoil, self.other = node, client, spoil, other

    def train(self, order: TrainingOrder) -> TrainingAnswer:
        answer = self.node.train(order)
        return self.spoil(order, answer) if order.client == self.client else answer

    def statistics(self, order: StatisticOrder) -> StatisticAnswer:
        answer = self.node.statistics(order)
        return self.other(order, answer) if order.client == self.client else answer

    def check(self) -> None:
        self.node.check()


class Gone(Exception):
    """A node that is not there: the answer is an error."""


class Patchy(LocalGrid):
    """A grid in which one node never answers, or answers with another text at the end of a training."""

    silent: int | None = None
    liar: int | None = None
    lie = ""

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        waiting = [entry for entry in self.queue if entry[1].metadata.dst_node_id == self.silent]
        names = [name for name in message_ids if name not in {name for name, _ in waiting}]
        if not names:
            return []
        found = list(super().pull_messages(names))
        self.queue.extend(waiting)
        for reply in found:
            metadata = reply.metadata
            if metadata.src_node_id == self.liar and metadata.message_type == "query.end":
                reply.content.config_records["fedsgt"]["json"] = self.lie
        return found


class Nodes(LocalClients):
    """Clients that are reached through Flower nodes in this process."""

    def __init__(
        self,
        client: str = "c1",
        spoil: Spoil = lambda order, answer: answer,
        module_cache: Callable[[Prepared], ModuleCache] | None = None,
        silent: bool = False,
        lie: str | None = None,
        ours: bool = True,
        spoil_statistics: SpoilStatistics = lambda order, answer: answer,
    ) -> None:
        self.spoil_statistics = spoil_statistics
        self.questions: list[StatisticOrder] = []
        self.lie, self.ours = lie, ours
        self.client, self.spoil, self.module_cache, self.silent = client, spoil, module_cache, silent
        self.orders: list[TrainingOrder] = []
        self.last: FlowerEngine | None = None

    @contextmanager
    def engine(self, folder: RunFolder, prepared: Prepared, tell: Listener) -> Iterator[FlowerEngine]:
        setup = prepared.setup(folder.modules, None)
        module_cache = self.module_cache(prepared) if self.module_cache else SharedStore()
        setup = replace(setup, read_module=getattr(module_cache, "get", setup.read_module))
        odd = Odd(PoolNode(Inline(setup), module_cache), self.client, self._spoiled, self.spoil_statistics)
        seen = make_client_app(lambda context: self._watched(odd))
        grid = Patchy(seen, len(setup.slices))
        nodes = connections_of(grid, setup.slices)
        grid.silent = nodes[self.client].node if self.silent else None
        if self.lie is not None:
            grid.liar, grid.lie = nodes[self.client].node, self.lie
        starter = RoundStarter(prepared.model.stack, folder.modules.get, prepared.run.training)
        info = replace(run_info(folder, prepared), ours=self.ours)
        engine = FlowerEngine(grid, lambda: nodes, starter, info, prepared.run.engine, tell, pause=0.01)
        self.last = engine
        with engine, counted_in(folder, engine.traffic):
            yield engine

    def all_take_part(self, run: Config) -> bool:
        return False

    def _watched(self, odd: Odd) -> Node:
        access = self

        class Watched:
            def train(self, order: TrainingOrder) -> TrainingAnswer:
                access.orders.append(order)
                return odd.train(order)

            def statistics(self, order: StatisticOrder) -> StatisticAnswer:
                access.questions.append(order)
                return odd.statistics(order)

            def check(self) -> None:
                odd.check()

        return Watched()

    def _spoiled(self, order: TrainingOrder, answer: TrainingAnswer) -> TrainingAnswer:
        return self.spoil(order, answer)


def each_update(change: Callable[[Update], Update]) -> Spoil:
    def spoil(order: TrainingOrder, answer: TrainingAnswer) -> TrainingAnswer:
        return replace(answer, updates={key: change(update) for key, update in answer.updates.items()})

    return spoil


def each_tensor(change: Callable[[Tensors], Tensors]) -> Spoil:
    return each_update(lambda update: replace(update, state=change(dict(update.state))))


__all__ = ["Context", "Error", "Gone", "Nodes", "each_tensor", "each_update"]
