"""The executor runs the installed app, and keeps the texts of its errors to itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from deployment import Deployment, finished, tiny_app, until
from flwr.app import Context, Message

from fedsgt.engine.flower.local import LocalGrid
from fedsgt.engine.flower.messages import text_message, text_of
from fedsgt.federation.client.executor import _reply
from fedsgt.federation.client.supernode import SuperNode
from fedsgt.federation.server.submit import submit
from fedsgt.federation.server.superlink import SuperLink


@pytest.mark.slow
def test_the_node_answers_with_the_installed_app_and_keeps_its_errors_to_itself(
    deployment: Deployment, node: SuperNode, tmp_path: Path
) -> None:
    app = tiny_app(tmp_path / "app")
    with SuperLink(deployment.server) as link:
        link.register_clients()
        until(lambda: deployment.said == ["a: connected"], node)
        for wish, heard in (
            ("hello", "a {'wish': 'hello', 'client': \"it's mine.toml\"}"),
            ("fail", "a ValueError; the client's executor.log says more"),
        ):
            run = finished(submit(deployment.server, {"wish": wish}, app), node)
            assert run.status() == "finished:completed", run.log_tail()
            assert heard in run.log_tail()
        assert "record 4711 is bad" in (deployment.client.folder / "executor.log").read_text()
        long = submit(deployment.server, {"wish": "sleep"}, app)
        until(lambda: long.status() == "running", node)
        long.stop()
        assert long.status() == "finished:stopped"


def test_an_error_is_told_by_its_kind_and_logged_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    def app(message: Message, context: Context) -> Message:
        raise ValueError("record 4711 is bad")

    grid = LocalGrid(lambda message, context: _reply(app, message, context), 1)
    names = list(grid.push_messages([Message(text_message({}), 1, "train")]))
    (reply,) = grid.pull_messages(names)
    assert reply.error.reason == "ValueError; the client's executor.log says more"
    assert "record 4711 is bad" in capsys.readouterr().err


def test_an_answer_goes_on_as_it_is() -> None:
    def app(message: Message, context: Context) -> Message:
        return Message(text_message({"node": context.node_id}), reply_to=message)

    grid = LocalGrid(lambda message, context: _reply(app, message, context), 2)
    (reply,) = grid.pull_messages(grid.push_messages([Message(text_message({}), 2, "train")]))
    assert text_of(reply.content) == {"node": 2}
