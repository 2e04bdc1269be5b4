"""The Flower app of a client on its own machine, which tells the server nothing about single records."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from flwr.app import Context, Message

from fedsgt.engine.flower.messages import TrainingAnswer, TrainingOrder, text_message, text_of
from fedsgt.engine.flower.node import Node, make_client_app
from fedsgt.engine.flower.statistic_messages import StatisticAnswer, StatisticOrder
from fedsgt.errors import BackboneChanged, InputError, ShareableError
from fedsgt.federation.settings import load_client
from fedsgt.stack import profile

if TYPE_CHECKING:
    from fedsgt.federation.client.trainer import ClientTrainer

CHANGED = (
    "the records of its slices are not those that it registered; "
    "if they changed on purpose, train into a new run"
)
LEAVING = "it is deleting records of its slices, and the server's desk has not answered yet"
PARTIAL = "it was asked for a statistic of a part of its records, which would show too much of them"
NOT_ITS_SLICES = "it was asked for slices that it does not have, or for one twice"
CLIENT = "client"  # key of the node's configuration: the client's settings
Key = TypeVar("Key")
TOLD = {CHANGED, LEAVING, PARTIAL, NOT_ITS_SLICES}  # problems that the server may read
UNTOLD = "something is wrong on its machine; what it is stands in its own log (executor.log)"


@cache
def trainer_of(path: str) -> ClientTrainer:
    """Return the trainer of a client's settings, one for the life of the process."""
    # Torch reads its environment when it is imported, so this comes first.
    os.environ.update(profile.environment())
    from fedsgt.federation.client.trainer import ClientTrainer

    return ClientTrainer(load_client(path))


class DiscreetNode:
    """A client's trainer whose errors are logged in full here and told to others without details."""

    def __init__(self, trainer: ClientTrainer) -> None:
        self.trainer = trainer

    def train(self, order: TrainingOrder) -> TrainingAnswer:
        with discreet():
            answer = self.trainer.train(order)
        return replace(answer, problems=_told(answer.problems))

    def statistics(self, order: StatisticOrder) -> StatisticAnswer:
        with discreet():
            answer = self.trainer.statistics(order)
        return replace(answer, problems=_told(answer.problems))

    def check(self) -> None:
        with discreet():
            self.trainer.end()


def _told(problems: Mapping[Key, str]) -> dict[Key, str]:
    """Return problems as the server may read them: texts that are known to name no record; log the others."""
    for problem in set(problems.values()) - TOLD:
        print(f"fedsgt: {problem}", file=sys.stderr, flush=True)
    return {key: said if said in TOLD else UNTOLD for key, said in problems.items()}


@contextmanager
def discreet() -> Iterator[None]:
    """Replace an error by one without details, since its text may name records; log the text here.

    Errors whose texts are meant for the server pass as they are.
    """
    try:
        yield
    except (ShareableError, BackboneChanged):
        raise
    except InputError as error:
        print(f"fedsgt: {error}", file=sys.stderr, flush=True)
        raise ShareableError(UNTOLD) from None


def find(context: Context) -> Node:
    return DiscreetNode(trainer_of(str(context.node_config[CLIENT])))


app = make_client_app(find)


@app.query("register")
def register(message: Message, context: Context) -> Message:
    """Register the client for a run: answer the server with its slices' fingerprints and sizes."""
    said: dict[str, Any]
    try:
        with discreet():
            trainer = trainer_of(str(context.node_config[CLIENT]))
            said = trainer.register(text_of(message.content))
    except InputError as error:
        said = {"problem": str(error)}
    return Message(text_message(said), reply_to=message)
