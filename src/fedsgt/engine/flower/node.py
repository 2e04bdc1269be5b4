"""A node: carries out orders on the workers that the in-process engine uses too, and is a Flower app."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedsgt.engine.flower import statistic_messages
from fedsgt.engine.flower.messages import (
    TrainingAnswer,
    TrainingOrder,
    decode_order,
    encode_answer,
    text_message,
)
from fedsgt.engine.flower.statistic_messages import StatisticAnswer, StatisticOrder
from fedsgt.engine.pool import Failure, Pool
from fedsgt.engine.task import Update
from fedsgt.errors import BackboneChanged, InputError
from fedsgt.files.tensors import Tensors
from fedsgt.stack.statistics import Statistic


class Node(Protocol):
    """Trains and makes statistics for one client, or for several simulated ones."""

    def train(self, order: TrainingOrder) -> TrainingAnswer:
        """Carry out an order; raise `InputError` if none of it can be."""

    def statistics(self, order: StatisticOrder) -> StatisticAnswer:
        """Make the statistics of an order; raise `InputError` if none of them can be made."""

    def check(self) -> None:
        """End a training: drop all modules, and raise if the backbone was modified."""


class ModuleCache(Protocol):
    """Frozen modules that a node was sent."""

    def lacks(self, hashes: Mapping[str, str]) -> list[str]:
        """Return the keys of modules that are not there with these hashes."""

    def put(self, modules: Mapping[str, Tensors], hashes: Mapping[str, str]) -> None:
        """Store modules; raise if one does not have its hash."""

    def keep(self, keys: Collection[str]) -> None:
        """Destroy all modules but these."""


class SharedStore:
    """Module cache of a node on the server's machine, which reads the server's own store."""

    def lacks(self, hashes: Mapping[str, str]) -> list[str]:
        return []

    def put(self, modules: Mapping[str, Tensors], hashes: Mapping[str, str]) -> None: ...

    def keep(self, keys: Collection[str]) -> None: ...


class PoolNode:
    """A node over a pool of workers that have the clients' data."""

    def __init__(self, pool: Pool, module_cache: ModuleCache) -> None:
        self.pool, self.module_cache = pool, module_cache
        self.turn = threading.Lock()  # a simulation's process may get messages of several clients at once

    def train(self, order: TrainingOrder) -> TrainingAnswer:
        """Carry out every job of the order; one that fails is told, and does not stop the others."""
        with self.turn:
            lacking = self._take_modules(order)
            return TrainingAnswer(lacks=lacking) if lacking else self._carry_out(order)

    def statistics(self, order: StatisticOrder) -> StatisticAnswer:
        """Make every statistic of the order; one that fails is told, and does not stop the others."""
        with self.turn:
            lacking = self._take_modules(order)
            return StatisticAnswer(lacks=lacking) if lacking else self._make_statistics(order)

    def check(self) -> None:
        # First the modules, which are others' work: they go even if the check of the backbone fails.
        with self.turn:
            self.module_cache.keep(())
            self.pool.everywhere("keep", ())
            self.pool.everywhere("check")

    def _take_modules(self, order: TrainingOrder | StatisticOrder) -> tuple[str, ...]:
        """Keep only the modules that may stay, with those that were sent now; return keys of missing ones."""
        # Deleted modules go first, before anything is computed: the server lists those that may stay.
        self.module_cache.keep(order.keep)
        # Workers drop modules that are sent now: one of the same key may have other bytes than before.
        self.pool.everywhere("keep", {*order.keep, *order.hashes} - order.modules.keys())
        self.module_cache.put(order.modules, order.hashes)
        return tuple(self.module_cache.lacks(order.hashes))

    def _make_statistics(self, order: StatisticOrder) -> StatisticAnswer:
        for number, asked in enumerate(order.questions):
            self.pool.submit(number, "statistic", asked.chain, order.client, asked.slices)
        found: dict[int, Statistic] = {}
        problems: dict[int, str] = {}
        for _ in order.questions:
            number, answer = self.pool.wait()
            if isinstance(answer, Failure):
                problems[number] = _problem(answer.error())
            else:
                found[number] = answer
        return StatisticAnswer(found, problems)

    def _carry_out(self, order: TrainingOrder) -> TrainingAnswer:
        for number, job in enumerate(order.jobs):
            arguments = (job.parents, job.state, order.client, job.slices, job.seed)
            self.pool.submit(number, "update", *arguments)
        updates: dict[str, Update] = {}
        problems: dict[str, str] = {}
        for _ in order.jobs:
            number, answer = self.pool.wait()
            key = order.jobs[number].key
            if isinstance(answer, Failure):
                problems[key] = _problem(answer.error())
            else:
                updates[key] = answer
        return TrainingAnswer(updates, problems)


def make_client_app(find: Callable[[Context], Node]) -> ClientApp:
    """Return the Flower app of a node, which `find` looks up for each message."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        order = decode_order(message.content)
        try:
            answer = find(context).train(order)
        except InputError as error:
            answer = TrainingAnswer(problems={job.key: str(error) for job in order.jobs})
        return Message(encode_answer(answer), reply_to=message)

    @app.query("statistics")
    def statistics(message: Message, context: Context) -> Message:
        order = statistic_messages.decode_order(message.content)
        try:
            answer = find(context).statistics(order)
        except InputError as error:
            answer = StatisticAnswer(problems=dict.fromkeys(range(len(order.questions)), str(error)))
        return Message(statistic_messages.encode_answer(answer), reply_to=message)

    @app.query("end")
    def end(message: Message, context: Context) -> Message:
        said: dict[str, object] = {}
        try:
            find(context).check()
        except InputError as error:
            said = {"problem": str(error), "backbone": isinstance(error, BackboneChanged)}
        return Message(text_message(said), reply_to=message)

    return app


def _problem(error: Exception) -> str:
    """Return the text of an error for the server; only our own errors are known to show no data."""
    known = isinstance(error, InputError)
    return str(error) if known else f"an error of the program ({type(error).__name__})"
