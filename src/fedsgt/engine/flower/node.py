"""What a node does with an order: the same jobs on the same workers as the in-process engine."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from typing import Protocol

from fedsgt.engine.flower.messages import Answer, Order
from fedsgt.engine.pool import Failure, Pool
from fedsgt.engine.task import Tensors, Update
from fedsgt.errors import InputError


class Shelf(Protocol):
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


class Node:
    """Workers over the data of one client, or of several simulated ones."""

    def __init__(self, pool: Pool, shelf: Shelf) -> None:
        self.pool, self.shelf = pool, shelf
        self.turn = threading.Lock()

    def train(self, order: Order) -> Answer:
        """Every job of the order, over all workers; what fails is told, and does not stop the others."""
        with self.turn:
            self.shelf.keep(order.keep)
            # Not those that come now: a module of the same key may have other bytes.
            self.pool.everywhere("keep", {*order.keep, *order.hashes} - order.modules.keys())
            self.shelf.put(order.modules, order.hashes)
            lacking = self.shelf.lacks(order.hashes)
            return Answer(lacks=tuple(lacking)) if lacking else self._done(order)

    def check(self) -> None:
        """The backbone's bytes are what they were; the modules of others are not kept."""
        with self.turn:
            self.shelf.keep(())
            self.pool.everywhere("keep", ())
            self.pool.everywhere("check")

    def _done(self, order: Order) -> Answer:
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
        return Answer(updates, problems)


def _told(error: Exception) -> str:
    """What went wrong, without what may be data."""
    return (
        str(error) if isinstance(error, InputError) else f"an error of the program ({type(error).__name__})"
    )
