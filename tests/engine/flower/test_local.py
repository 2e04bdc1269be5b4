"""The Flower engine over nodes in this process gives the bytes of the in-process engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from flwr.app import Context, Message
from tiny_world import World, trained

from fedsgt.engine.flower.local import LocalGrid, connections_of
from fedsgt.engine.flower.messages import text_message, text_of


@pytest.mark.parametrize("settings", [(), ("training.rounds=2", "peft.layers=1", "engine.workers=2")])
def test_the_modules_are_those_of_the_in_process_engine(
    images: World, tmp_path: Path, settings: tuple[str, ...]
) -> None:
    here = trained(tmp_path / "here", images.config(*settings))
    assert trained(tmp_path / "there", images.config(*settings, "engine.name=flower")) == here


def echo(message: Message, context: Context) -> Message:
    if message.metadata.message_type == "query.fail":
        raise ValueError("record 4711 is bad")
    return Message(text_message({"node": context.node_id}), reply_to=message)


def sent_over(grid: LocalGrid, *nodes: int, kind: str = "query.ask") -> list[str]:
    return list(grid.push_messages([Message(text_message({}), node, kind) for node in nodes]))


def test_each_message_is_answered_once_by_the_node_that_it_was_sent_to() -> None:
    grid = LocalGrid(echo, 3)
    names = sent_over(grid, 2, 1, 2)
    assert len(set(names)) == 3
    answers = [reply for _ in range(4) for reply in grid.pull_messages(names)]
    assert [reply.metadata.reply_to_message_id for reply in answers] == names
    assert [text_of(reply.content)["node"] for reply in answers] == [2, 1, 2]


def test_a_message_that_nobody_asks_for_any_more_is_dropped() -> None:
    """It may belong to a round that a deletion has cancelled."""
    grid = LocalGrid(echo, 2)
    first, second = sent_over(grid, 1, 2)
    (reply,) = grid.pull_messages([second])
    assert reply.metadata.reply_to_message_id == second
    assert grid.pull_messages([first]) == []


def test_a_node_that_fails_answers_with_an_error() -> None:
    grid = LocalGrid(echo, 1)
    (reply,) = grid.pull_messages(sent_over(grid, 1, kind="query.fail"))
    assert reply.has_error()
    assert reply.error.reason == "ValueError: record 4711 is bad"


def test_every_client_has_a_node_of_its_own() -> None:
    places = connections_of(LocalGrid(echo, 3), {"b": 1, "a": 2, "c": 3})
    assert {name: place.node for name, place in places.items()} == {"a": 1, "b": 2, "c": 3}
    with pytest.raises(ValueError, match="shorter"):
        connections_of(LocalGrid(echo, 1), {"a": 1, "b": 2})
