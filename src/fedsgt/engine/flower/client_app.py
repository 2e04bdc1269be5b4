"""The Flower app of a node: hands each message to the node's trainer, wherever that is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedsgt.engine.flower.messages import Answer, Order, decode_order, encode_answer, say
from fedsgt.errors import BackboneChanged, InputError


class Trainer(Protocol):
    """A node, in this process or another."""

    def train(self, order: Order) -> Answer: ...

    def check(self) -> None: ...


def make_client_app(find: Callable[[Context], Trainer]) -> ClientApp:
    """An app that asks for its trainer when a message comes."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        order = decode_order(message.content)
        try:
            answer = find(context).train(order)
        except InputError as error:
            answer = Answer(problems={job.key: str(error) for job in order.jobs})
        return Message(encode_answer(answer), reply_to=message)

    @app.query("end")
    def end(message: Message, context: Context) -> Message:
        said: dict[str, object] = {}
        try:
            find(context).check()
        except InputError as error:
            said = {"problem": str(error), "backbone": isinstance(error, BackboneChanged)}
        return Message(say(said), reply_to=message)

    return app
