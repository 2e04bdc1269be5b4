"""The Flower engine: few, fat rounds. All modules that can be trained now go to a client in one message."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Self

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from fedsgt.config.sections import Engine as Settings
from fedsgt.engine.events import ClientTrouble, Listener, ignore
from fedsgt.engine.flower.messages import TrainingAnswer, decode_answer, text_of
from fedsgt.engine.flower.transport import (
    Connection,
    DroppedOut,
    FlowerRound,
    RunInfo,
    SentOrder,
    Transport,
    reason,
)
from fedsgt.engine.rounds import RefusedUpdate, Server, check_distance, check_update, updated
from fedsgt.engine.task import Result, RoundFailed, Task, Update
from fedsgt.errors import BackboneChanged, InputError
from fedsgt.files.tensors import Tensors
from fedsgt.words import LONGEST_MESSAGE, printable

ALL_AT_ONCE = 1_000_000


class FlowerEngine:
    """Tasks gather until an answer is asked for; then all go out, and the answers come in any order.

    What clients send may be anything: only what was asked for is used, and nobody can stop a round by it.
    """

    def __init__(
        self,
        grid: Grid,
        nodes: Callable[[], Mapping[str, Connection]],
        server: Server,
        info: RunInfo,
        settings: Settings,
        tell: Listener = ignore,
        pause: float = 0.1,
        at_once: int | None = None,
    ) -> None:
        self.server, self.info, self.settings = server, info, settings
        self.tell, self.pause = tell, pause
        self.transport = Transport(grid, nodes, server, info, settings, tell, at_once)
        self.traffic = self.transport.traffic
        self.capacity = ALL_AT_ONCE
        self.gathered: list[FlowerRound] = []
        self.done: deque[Result | RoundFailed] = deque()

    def submit(self, task: Task) -> None:
        held = {client: self.info.records(client, slices) for client, slices in task.slices.items()}
        records = {client: number for client, number in held.items() if number}
        if not records:
            raise InputError(f"module {task.key[:12]}: no client has a record in its groups")
        self.gathered.append(FlowerRound(task, self.server.start(task), records))

    def wait(self) -> Result | None:
        if not self.done:
            self._listen()
        if not self.done:
            return None
        finished = self.done.popleft()
        if isinstance(finished, RoundFailed):
            raise finished
        return finished

    def cancel(self, key: str) -> None:
        for opened in (*self.gathered, *self.transport.under_way()):
            opened.over |= opened.task.key == key
        self.gathered = [opened for opened in self.gathered if not opened.over]
        self.done = deque(entry for entry in self.done if entry.key != key)
        self.transport.drop_over()

    def finish(self, state: Tensors) -> Tensors:
        return self.server.stack.finish(state)

    def close(self) -> None:
        """Every node that took part checks its backbone, and destroys the modules that it was sent."""
        for client, reply in self.transport.last_words(self.pause):
            if reply is None:
                self._trouble(client, "did not answer at the end; it clears up when it starts again")
            elif reply.has_error():
                self._trouble(client, reason(reply))
            elif (said := _last_word(reply)).get("problem"):
                if said.get("backbone") and self.info.ours:
                    raise BackboneChanged(f"client {client}: {said['problem']}")
                # What others say must not cost everybody's work: verification shows whether it is true.
                self._trouble(client, printable(said["problem"], LONGEST_MESSAGE))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()

    def _listen(self) -> None:
        """Take in what there is; once nothing is under way, all that has gathered goes out."""
        if self.gathered and not self.transport.busy:
            rounds, self.gathered = self.gathered, []
            self.transport.depart(rounds)
        arrivals = self.transport.listen()
        for sent_order, content in arrivals:
            self._take(sent_order, content)
        lost, self.transport.lost = self.transport.lost, []
        for entry in lost:
            self._without(entry)
        broken, self.transport.broken = self.transport.broken, []
        self.done.extend(RoundFailed(opened.task.key, error) for opened, error in broken)
        if not arrivals and not self.done:
            time.sleep(self.pause)

    def _take(self, sent_order: SentOrder, content: RecordDict) -> None:
        client = sent_order.client
        try:
            answer = decode_answer(content, client, _most_bytes(sent_order))
        except InputError as error:
            self._refuse(client, sent_order.rounds, str(error))
            return
        needed = {key for opened in sent_order.rounds for key in opened.task.parents}
        if not (needed - sent_order.carried).issuperset(answer.lacks):
            self._refuse(
                client, sent_order.rounds, "it says that it lacks a module that it has or does not need"
            )
        elif answer.lacks:
            self.transport.send_again(sent_order, answer.lacks)
        else:
            self._admit(sent_order, answer)

    def _admit(self, sent_order: SentOrder, answer: TrainingAnswer) -> None:
        for opened in sent_order.rounds:
            key = opened.task.key
            if key in answer.problems:
                self._without(
                    DroppedOut(
                        sent_order.client,
                        [opened],
                        printable(answer.problems[key], LONGEST_MESSAGE),
                        final=True,
                    )
                )
            elif key not in answer.updates:
                self._refuse(sent_order.client, [opened], "there is no update in its answer")
            elif not opened.over:
                self._use(opened, answer.updates[key])

    def _use(self, opened: FlowerRound, update: Update) -> None:
        """An update is used if it is what was asked for, on the records that its client registered."""
        client = update.client
        try:
            if update.records != opened.records[client]:
                told, known = update.records, opened.records[client]
                raise RefusedUpdate(client, f"it says {told} records; it registered {known}")
            check_update(opened.start, update)
            check_distance(opened.start, update, self.settings.largest_update)
            opened.add(update)
        except RefusedUpdate as refused:
            self._refuse(client, [opened], refused.reason)
            return
        self.tell(updated(opened.task, update))
        self._heard(opened, client)

    def _refuse(self, client: str, rounds: list[FlowerRound], why: str) -> None:
        """The round goes on with the others."""
        why = printable(why, LONGEST_MESSAGE)
        for opened in rounds:
            task = opened.task
            self._trouble(client, f"update refused (module {task.key[:12]}, round {task.round}): {why}")
            opened.reasons.append(f"client {client}: update refused: {why}")
            self._heard(opened, client)

    def _without(self, lost: DroppedOut) -> None:
        """Go on without a client that is away, or says that it cannot; who waits for all has an error."""
        stops = lost.final and self.settings.absent == "wait"
        self._trouble(lost.client, lost.why if stops else f"{lost.why}; the round goes on without it")
        for opened in lost.rounds:
            opened.reasons.append(f"client {lost.client}: {lost.why}")
            if stops:
                self._fail(opened)
            self._heard(opened, lost.client)

    def _trouble(self, client: str, what: str) -> None:
        self.tell(ClientTrouble(client, what))

    def _heard(self, opened: FlowerRound, client: str) -> None:
        opened.leave_out(client)  # unless its update is in
        if opened.waiting or opened.over:
            return
        if not opened.reports:
            self._fail(opened)
            return
        self.done.append(opened.result())
        opened.over = True  # whatever else comes of it comes too late

    def _fail(self, opened: FlowerRound) -> None:
        if not opened.over:
            task, why = opened.task, "; ".join(opened.reasons)
            error = InputError(f"module {task.key[:12]}, round {task.round}: no update to go on with: {why}")
            self.done.append(RoundFailed(task.key, error))
            opened.over = True


def _last_word(reply: Message) -> dict[str, Any]:
    """What a client says, which may be anything."""
    try:
        return text_of(reply.content)
    except Exception:
        return {"problem": "its last word cannot be read"}


def _most_bytes(sent_order: SentOrder) -> int:
    """What an honest answer takes, with room for its text and the arrays' headers."""
    asked = sum(array.nbytes + 4096 for opened in sent_order.rounds for array in opened.start.values())
    return asked + 65536
