"""A client like `fedsgt client`, but its executor answers as its file `mood` says: well, badly or late."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from flwr.app import Context, Message

from fedsgt.engine.flower.messages import TrainingAnswer, decode_answer, decode_order, encode_answer
from fedsgt.engine.task import Update
from fedsgt.federation.client.executor import execute
from fedsgt.federation.client.node_app import CLIENT, app
from fedsgt.federation.client.supernode import TICK_SECONDS, SuperNode
from fedsgt.federation.processes import Child, only_one, stop_signals
from fedsgt.federation.settings import load_client
from fedsgt.files.tensors import Tensors

MUCH = 2**40
LATE_SECONDS = 45.0


def state(change: Callable[[Tensors], Tensors]) -> Callable[[Update], Update]:
    return lambda update: replace(update, state=change(dict(update.state)))


def first(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Update], Update]:
    """Return a function that changes one tensor alone."""

    def changed(tensors: Tensors) -> Tensors:
        name = min(tensors)
        return {**tensors, name: change(tensors[name].copy())}

    return state(changed)


def nan(array: np.ndarray) -> np.ndarray:
    array.flat[0] = np.nan
    return array


# One for each module of an answer, in turn.
SPOILT: tuple[Callable[[Update], Update], ...] = (
    first(nan),
    first(lambda array: array[..., :-1]),
    state(lambda tensors: {f"x{name}": array for name, array in tensors.items()}),
    first(lambda array: array + np.float32(1e6)),
    lambda update: replace(update, records=update.records + 1),
)


class Moody:
    """The app with another answer."""

    def __init__(self) -> None:
        self.spoilt = 0

    def __call__(self, message: Message, context: Context) -> Message:
        reply = app(message, context)
        if message.metadata.message_type != "train":
            return reply
        path = Path(str(context.node_config[CLIENT])).parent / "mood"
        mood = path.read_text() if path.exists() else ""
        if mood == "late":
            time.sleep(LATE_SECONDS)
        if mood == "bad":
            order = decode_order(message.content)
            answer = decode_answer(reply.content, order.client, MUCH)
            return Message(encode_answer(self._worse(answer)), reply_to=message)
        return reply

    def _worse(self, answer: TrainingAnswer) -> TrainingAnswer:
        updates = {}
        for key, update in answer.updates.items():
            number, self.spoilt = self.spoilt, self.spoilt + 1
            updates[key] = SPOILT[number](update) if number < len(SPOILT) else enormous(update)
        return replace(answer, updates=updates)


def enormous(update: Update) -> Update:
    more = {f"more{number}": np.zeros(1 << 20, np.float32) for number in range(8)}
    return replace(update, state={**update.state, **more})


class OddNode(SuperNode):
    """A SuperNode with this file's app in the place of FedSGT's."""

    def _start_executor(self) -> Child:
        command = [sys.executable, __file__, "execute", self.address, str(self.secret)]
        return Child(command, self.settings.folder / "executor.log", self.environment)


def client(folder: Path) -> None:
    settings = load_client(folder)
    with (
        only_one(settings.folder, "client"),
        stop_signals() as stop,
        tempfile.TemporaryDirectory(prefix="fedsgt-") as private,
    ):
        node = OddNode(settings, folder / "client.toml", Path(private), lambda line: print(line, flush=True))
        try:
            while not stop.wait(TICK_SECONDS):
                node.tend()
        finally:
            node.stop()


if __name__ == "__main__":
    if sys.argv[1] == "client":
        client(Path(sys.argv[2]))
    else:
        execute(sys.argv[2], Path(sys.argv[3]).read_bytes(), Moody())
