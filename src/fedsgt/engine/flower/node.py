"""What a node does with an order: the same jobs on the same workers as the in-process engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedsgt.engine.flower.messages import (
    TrainingAnswer,
    TrainingOrder,
    decode_order,
    encode_answer,
    text_message,
)
from fedsgt.engine.pool import Failure, Pool
from fedsgt.engine.task import Update
from fedsgt.errors import BackboneChanged, InputError
from fedsgt.files.tensors import Tensors


class Node(Protocol):
    """A node, in this process or another."""

    def train(self, order: TrainingOrder) -> TrainingAnswer: ...

    def check(self) -> None: ...


class ModuleCache(Protocol):
    """The frozen modules that a node was sent."""

    def lacks(self, hashes: Mapping[str, str]) -> list[str]:
        """Keys of those that are not there as these hashes say."""

    def put(self, modules: Mapping[str, Tensors], hashes: Mapping[str, str]) -> None: ...

    def keep(self, keys: Collection[str]) -> None:
        """Destroy all but these."""


class SharedStore:
    """For nodes on the server's own machine, which read modules where the server has them."""

    def lacks(self, hashes: Mapping[str, str]) -> list[str]:
        return []

    def put(self, modules: Mapping[str, Tensors], hashes: Mapping[str, str]) -> None: ...

    def keep(self, keys: Collection[str]) -> None: ...


class PoolNode:
    """Workers over the data of one client, or of several simulated ones."""

    def __init__(self, pool: Pool, module_cache: ModuleCache) -> None:
        self.pool, self.module_cache = pool, module_cache
        self.turn = threading.Lock()

    def train(self, order: TrainingOrder) -> TrainingAnswer:
        """Every job of the order, over all workers; what fails is told, and does not stop the others."""
        with self.turn:
            self.module_cache.keep(order.keep)
            # Not those that come now: a module of the same key may have other bytes.
            self.pool.everywhere("keep", {*order.keep, *order.hashes} - order.modules.keys())
            self.module_cache.put(order.modules, order.hashes)
            lacking = self.module_cache.lacks(order.hashes)
            return TrainingAnswer(lacks=tuple(lacking)) if lacking else self._done(order)

    def check(self) -> None:
        """The backbone's bytes are what they were; the modules of others are not kept."""
        with self.turn:
            self.module_cache.keep(())
            self.pool.everywhere("keep", ())
            self.pool.everywhere("check")

    def _done(self, order: TrainingOrder) -> TrainingAnswer:
        for number, job in enumerate(order.jobs):
            arguments = (job.parents, job.state, order.client, job.slices, job.seed)
            self.pool.submit(number, "update", *arguments)
        updates: dict[str, Update] = {}
        problems: dict[str, str] = {}
        for _ in order.jobs:
            number, answer = self.pool.wait()
            key = order.jobs[number].key
            if isinstance(answer, Failure):
                problems[key] = _told(answer.error())
            else:
                updates[key] = answer
        return TrainingAnswer(updates, problems)


def make_client_app(find: Callable[[Context], Node]) -> ClientApp:
    """An app that asks for its trainer when a message comes."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        order = decode_order(message.content)
        try:
            answer = find(context).train(order)
        except InputError as error:
            answer = TrainingAnswer(problems={job.key: str(error) for job in order.jobs})
        return Message(encode_answer(answer), reply_to=message)

    @app.query("end")
    def end(message: Message, context: Context) -> Message:
        said: dict[str, object] = {}
        try:
            find(context).check()
        except InputError as error:
            said = {"problem": str(error), "backbone": isinstance(error, BackboneChanged)}
        return Message(text_message(said), reply_to=message)

    return app


def _told(error: Exception) -> str:
    """What went wrong, without what may be data."""
    return (
        str(error) if isinstance(error, InputError) else f"an error of the program ({type(error).__name__})"
    )
