"""The in-process engine: all clients on this machine, over worker processes with one thread each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsgt.engine.events import Listener, ignore
from fedsgt.engine.pool import Failure, Inline, Pool, Processes
from fedsgt.engine.rounds import OpenRound, RoundStarter, client_order, client_seed, updated
from fedsgt.engine.task import Outputs, Result, RoundFailed, StatisticTask, Task, Update
from fedsgt.engine.worker import Setup
from fedsgt.errors import InputError
from fedsgt.files.tensors import Tensors
from fedsgt.stack.merge import Mixture
from fedsgt.stack.stack import Stack
from fedsgt.stack.statistics import Statistic

TEST_PART = 128  # records of a prediction job: many enough for speed, few enough to share among workers
Share: TypeAlias = Callable[[float], None]
"""Function that is told which share of the work is done."""


def _untold(share: float) -> None:
    """Ignore the share."""


class InProcess:
    """Cuts each round into one job a client; the order in which jobs end does not change the result."""

    def __init__(self, setup: Setup, stack: Stack, tell: Listener = ignore) -> None:
        workers = setup.run.engine.workers
        self.setup, self.tell = setup, tell
        self.starter = RoundStarter(stack, setup.read_module, setup.run.training)
        self.pool: Pool = Processes(setup, workers) if workers else Inline(setup)
        self.capacity = workers + 1  # one more, so that no worker is idle while a round is averaged
        self.rounds: dict[int, OpenRound] = {}
        """Round of each job under way, by the job's number."""
        self.jobs = 0
        """Number of the last job; no number is used twice, so that late answers can be told apart."""
        self.early: deque[tuple[int, Any]] = deque()
        """Updates of rounds under way that came while other answers were waited for."""

    def submit(self, task: Task) -> None:
        """Submit a job for each client that has records of the task."""
        held = {client: self._records(client, slices) for client, slices in task.slices.items()}
        # A deletion may have taken a client's last record of these groups.
        records = {client: number for client, number in held.items() if number}
        if not records:
            raise InputError(f"module {task.key[:12]}: no client has a record in its groups")
        opened = self.starter.open(task, records)
        for client in client_order(records):
            self.jobs += 1
            self.rounds[self.jobs] = opened
            slices, seed = task.slices[client], client_seed(task, client)
            self.pool.submit(self.jobs, "update", task.parents, opened.start, client, slices, seed)

    def wait(self) -> Result | None:
        """Wait for one client's update, and return the result if it was the last one of its round."""
        arrived = self._receive()
        if arrived is None:
            return None
        opened, update = arrived
        # An update is told only after it was checked, so that a refused one leaves no line in the metrics.
        self.tell(updated(opened.task, update, self.starter.training.window))
        return None if opened.waiting else opened.result()

    def updates(self, task: Task) -> dict[str, Update]:
        """Train one round and return every client's update, instead of their average."""
        self.submit(task)
        found: dict[str, Update] = {}
        while self.rounds:
            arrived = self._receive()
            if arrived is not None:
                found[arrived[1].client] = arrived[1]
        return found

    def cancel(self, key: str) -> None:
        """Drop the round of this module that is under way."""
        # Workers that are busy with it cannot be interrupted; their answers are ignored when they come.
        numbers = [number for number, opened in self.rounds.items() if opened.task.key == key]
        for number in numbers:
            del self.rounds[number]
        self.pool.drop(numbers)

    def finish(self, state: Tensors) -> Tensors:
        return self.starter.stack.finish(state)

    def statistics(self, tasks: Sequence[StatisticTask]) -> Iterator[tuple[StatisticTask, Statistic]]:
        """Yield each task's statistic as it arrives; an error, such as a module that is gone, is raised."""
        # Chain by chain, so that a worker folds each chain once.
        chains = {task.chain: index for index, task in reversed([*enumerate(tasks)])}
        ordered = sorted(tasks, key=lambda task: chains[task.chain])
        jobs = [(task.chain, task.client, task.slices) for task in ordered]
        for place, answer in self._answers("statistic", jobs):
            yield ordered[place], answer

    def outputs(self, chains: Sequence[tuple[str, ...]], progress: Share = _untold) -> list[Outputs]:
        """Return class probabilities and features of all test records under each chain of modules."""
        parts: list[list[Outputs]] = self._parts("outputs", tuple(chains), progress)
        return [
            Outputs(
                np.concatenate([found.probabilities for found in chain]),
                np.concatenate([found.features for found in chain]),
            )
            for chain in zip(*parts, strict=True)
        ]

    def predict(self, chains: Sequence[tuple[str, ...]], progress: Share = _untold) -> NDArray[np.float32]:
        """Return class probabilities of all test records (axis 1) under each chain of modules (axis 0)."""
        return np.concatenate(self._parts("predict", tuple(chains), progress), axis=1)

    def predict_merged(self, mixture: Mixture, progress: Share = _untold) -> NDArray[np.float32]:
        """Return class probabilities of all test records under the average of several chains."""
        return np.concatenate(self._parts("predict_merged", mixture, progress))

    def _parts(self, method: str, model: Any, progress: Share) -> list[Any]:
        """Predict the test records in parts, and return the answers in the order of the parts."""
        test = self.setup.test
        assert test is not None
        jobs = [(model, part) for part in test.parts(TEST_PART)]
        found: dict[int, Any] = {}
        for place, answer in self._answers(method, jobs):
            found[place] = answer
            progress(len(found) / len(jobs))
        return [found[place] for place in sorted(found)]

    def _answers(self, method: str, jobs: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        """Do jobs of one method, each given by its arguments; yield answers with their places in `jobs`."""
        first = self.jobs + 1
        self.jobs += len(jobs)
        waiting = set(range(first, self.jobs + 1))
        try:
            for number, arguments in enumerate(jobs, start=first):
                self.pool.submit(number, method, *arguments)
            while waiting:
                number, answer = self.pool.wait()
                if number in waiting:
                    waiting.remove(number)
                    if isinstance(answer, Failure):
                        raise answer.error()
                    yield number - first, answer
                elif number in self.rounds:
                    self.early.append((number, answer))
                # Others are updates of rounds that were cancelled while they ran.
        finally:
            self.pool.drop(waiting)

    def close(self) -> None:
        self.pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # After an error there is nothing left to check, only processes to end.
        if kind is None:
            self.close()
        else:
            self.pool.stop()

    def _receive(self) -> tuple[OpenRound, Update] | None:
        """Wait for one job; None if it belonged to a round that was cancelled while it ran."""
        number, update = self.early.popleft() if self.early else self.pool.wait()
        opened = self.rounds.pop(number, None)
        if opened is None:
            return None
        if isinstance(update, Failure):
            self.cancel(opened.task.key)
            raise RoundFailed(opened.task.key, update.error())
        self._add(opened, update)
        return opened, update

    def _add(self, opened: OpenRound, update: Update) -> None:
        """Add an update to its round, or fail the round.

        All clients are on this machine, so an update that cannot be used is an error of the run itself.
        """
        try:
            opened.add(update)
        except InputError as error:
            task = opened.task
            self.cancel(task.key)
            named = InputError(f"module {task.key[:12]}, round {task.round}, {error}")
            raise RoundFailed(task.key, named) from None

    def _records(self, client: str, slices: Sequence[int]) -> int:
        return sum(len(self.setup.slices[client][index]) for index in slices)
