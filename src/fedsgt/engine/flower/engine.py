"""The Flower engine: all modules that can be trained now go to each client in one message."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from fedsgt.config.sections import Engine as Settings
from fedsgt.engine.events import ClientTrouble, Listener, ignore
from fedsgt.engine.flower.messages import TrainingAnswer, decode_answer, text_of
from fedsgt.engine.flower.orders import Connection, DroppedOut, FlowerRound, RunInfo, SentOrder
from fedsgt.engine.flower.statistics import StatisticGatherer
from fedsgt.engine.flower.transport import Transport, reason
from fedsgt.engine.rounds import RefusedUpdate, RoundStarter, check_distance, check_update, updated
from fedsgt.engine.task import Result, RoundFailed, StatisticTask, Task, Update
from fedsgt.errors import BackboneChanged, InputError
from fedsgt.files.tensors import Tensors
from fedsgt.stack.statistics import Statistic
from fedsgt.words import LONGEST_MESSAGE, counted, printable

ALL_AT_ONCE = 1_000_000  # tasks: the more share a message, the fewer rounds a training takes


class FlowerEngine:
    """Gathers tasks until a result is asked for, then sends them all; answers come in any order.

    A client may answer with anything. Only what was asked for is used, and no answer can stop a round.
    """

    def __init__(
        self,
        grid: Grid,
        connections: Callable[[], Mapping[str, Connection]],
        starter: RoundStarter,
        info: RunInfo,
        settings: Settings,
        tell: Listener = ignore,
        pause: float = 0.1,
        at_once: int | None = None,
    ) -> None:
        self.starter, self.info, self.settings = starter, info, settings
        self.tell, self.pause = tell, pause
        self.transport = Transport(grid, connections, starter, info, settings, tell, at_once)
        self.traffic = self.transport.traffic
        self.capacity = ALL_AT_ONCE
        self.gathered: list[FlowerRound] = []
        self.done: deque[Result | RoundFailed] = deque()

    def submit(self, task: Task) -> None:
        held = {client: self.info.records(client, slices) for client, slices in task.slices.items()}
        records = {client: number for client, number in held.items() if number}
        if not records:
            raise InputError(f"module {task.key[:12]}: no client has a record in its groups")
        self.gathered.append(FlowerRound(task, self.starter.start(task), records))

    def wait(self) -> Result | None:
        if not self.done:
            self._listen()
        if not self.done:
            return None
        finished = self.done.popleft()
        if isinstance(finished, RoundFailed):
            raise finished
        return finished

    def statistics(self, tasks: Sequence[StatisticTask]) -> Iterator[tuple[StatisticTask, Statistic]]:
        return StatisticGatherer(self.transport, self.starter.stack, self.pause).gather(tasks)

    def cancel(self, key: str) -> None:
        for opened in (*self.gathered, *self.transport.rounds()):
            opened.over |= opened.task.key == key
        self.gathered = [opened for opened in self.gathered if not opened.over]
        self.done = deque(entry for entry in self.done if entry.key != key)
        self.transport.drop_finished()

    def finish(self, state: Tensors) -> Tensors:
        return self.starter.stack.finish(state)

    def close(self) -> None:
        """Let every node that took part check its backbone and destroy the modules that it was sent."""
        for client, reply in self.transport.end_nodes(self.pause):
            if reply is None:
                self._trouble(client, "did not answer at the end; it clears up when it starts again")
            elif reply.has_error():
                self._trouble(client, reason(reply))
            elif (said := _read_end(reply)).get("problem"):
                if said.get("backbone") and self.info.ours:
                    raise BackboneChanged(f"client {client}: {said['problem']}")
                # A remote client's word must not cost everybody's work: verification shows if it is true.
                self._trouble(client, printable(said["problem"], LONGEST_MESSAGE))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()

    def _listen(self) -> None:
        """Handle what arrived; once nothing is under way, send out all gathered tasks as one round."""
        if self.gathered and not self.transport.busy:
            rounds, self.gathered = self.gathered, []
            self.transport.begin_round(rounds)
        arrivals = self.transport.receive()
        for sent_order, content in arrivals:
            self._take(sent_order, content)
        dropped_out, self.transport.dropped_out = self.transport.dropped_out, []
        for entry in dropped_out:
            self._go_on_without(entry)
        broken, self.transport.broken = self.transport.broken, []
        self.done.extend(RoundFailed(opened.task.key, error) for opened, error in broken)
        if not arrivals and not self.done:
            time.sleep(self.pause)

    def _take(self, sent_order: SentOrder, content: RecordDict) -> None:
        """Read a client's answer: updates, or the modules that its node lacks."""
        client = sent_order.client
        try:
            answer = decode_answer(content, client, _most_bytes(sent_order))
        except InputError as error:
            self._refuse(client, sent_order.rounds, str(error))
            return
        needed = {key for opened in sent_order.rounds for key in opened.task.parents}
        if not (needed - sent_order.modules).issuperset(answer.lacks):
            self._refuse(
                client, sent_order.rounds, "it says that it lacks a module that it has or does not need"
            )
        elif answer.lacks:
            self.transport.send_again(sent_order, answer.lacks)
        else:
            self._admit(sent_order, answer)

    def _admit(self, sent_order: SentOrder, answer: TrainingAnswer) -> None:
        """Take from an answer the update, or the problem, of each round that was asked for."""
        client = sent_order.client
        for opened in sent_order.rounds:
            key = opened.task.key
            if key in answer.problems:
                why = printable(answer.problems[key], LONGEST_MESSAGE)
                self._go_on_without(DroppedOut(client, [opened], why, final=True))
            elif key not in answer.updates:
                self._refuse(client, [opened], "there is no update in its answer")
            elif not opened.over:
                self._use(opened, answer.updates[key])

    def _use(self, opened: FlowerRound, update: Update) -> None:
        """Add an update to its round if it has the form and the number of records that were asked for."""
        client = update.client
        try:
            if update.records != opened.records[client]:
                told, known = update.records, opened.records[client]
                raise RefusedUpdate(client, f"it says {counted(told, 'record')}; it registered {known}")
            check_update(opened.start, update)
            check_distance(opened.start, update, self.settings.largest_update)
            opened.add(update)
        except RefusedUpdate as refused:
            self._refuse(client, [opened], refused.reason)
            return
        self.tell(updated(opened.task, update, self.starter.training.window))
        self._settle(opened, client)

    def _refuse(self, client: str, rounds: list[FlowerRound], why: str) -> None:
        """Leave an update out and tell why; the round goes on with the other clients."""
        why = printable(why, LONGEST_MESSAGE)
        for opened in rounds:
            task = opened.task
            self._trouble(client, f"update refused (module {task.key[:12]}, round {task.round}): {why}")
            opened.reasons.append(f"client {client}: update refused: {why}")
            self._settle(opened, client)

    def _go_on_without(self, absent: DroppedOut) -> None:
        """Let rounds go on without a client, or fail if the settings want every client in them."""
        stops = absent.final and self.settings.absent == "wait"
        self._trouble(absent.client, absent.why if stops else f"{absent.why}; the round goes on without it")
        for opened in absent.rounds:
            opened.reasons.append(f"client {absent.client}: {absent.why}")
            if stops:
                self._fail(opened)
            self._settle(opened, absent.client)

    def _trouble(self, client: str, what: str) -> None:
        self.tell(ClientTrouble(client, what))

    def _settle(self, opened: FlowerRound, client: str) -> None:
        """Stop waiting for a client in a round, and finish the round if it was the last."""
        opened.leave_out(client)  # does nothing if its update was added
        if opened.waiting or opened.over:
            return
        if not opened.reports:
            self._fail(opened)
            return
        self.done.append(opened.result())
        opened.over = True  # a later answer comes too late

    def _fail(self, opened: FlowerRound) -> None:
        """End a round with an error that names every client's reason."""
        if not opened.over:
            task, why = opened.task, "; ".join(opened.reasons)
            error = InputError(f"module {task.key[:12]}, round {task.round}: no update to go on with: {why}")
            self.done.append(RoundFailed(task.key, error))
            opened.over = True


def _read_end(reply: Message) -> dict[str, Any]:
    """Return a node's answer at the end of a training."""
    try:
        return text_of(reply.content)
    except Exception:  # a hostile client may send anything
        return {"problem": "its answer at the end cannot be read"}


def _most_bytes(sent_order: SentOrder) -> int:
    """Return the size of the largest answer that is read."""
    # An honest answer has the arrays of the rounds, with a header each (4 kB is plenty), and some text.
    asked = sum(array.nbytes + 4096 for opened in sent_order.rounds for array in opened.start.values())
    return asked + 65536
