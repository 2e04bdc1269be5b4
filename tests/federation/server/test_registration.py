"""Clients register before a run: what they say is checked, and one that fails is asked a few times again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from client_machines import NAMES, Intercept, Machines, access_to, remote_config
from flwr.app import Error, Message
from tiny_world import Quiet, World

from fedsgt.build.train import train
from fedsgt.engine.flower.internals import ErrorCode
from fedsgt.engine.flower.messages import text_message, text_of
from fedsgt.engine.flower.transport import MOST_FAILURES
from fedsgt.errors import InputError


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"fingerprints": ["x"]}, "invalid registration"),
        ({"records": [1, -5]}, "invalid registration"),
        ({"records": [True, 1]}, "invalid registration"),
        ({"backbone": "f" * 64}, "its backbone is another one than the server's"),
        ({"profile": {"threads": "2"}}, "it computes in another way than the server"),
        ({"profile": {"threads": "1"}}, r"its fedsgt does not tell torch, .*probe of its execution profile"),
    ],
)
def test_what_a_client_registers_is_checked(
    images: World, machines: Path, tmp_path: Path, wrong: dict[str, Any], message: str
) -> None:
    def otherwise(client: str, asked: Message, answer: Callable[[], Message]) -> Message:
        """Let client c3 register with something wrong among what it says."""
        if client != "c3" or asked.metadata.message_type != "query.register":
            return answer()
        return Message(text_message(text_of(answer().content) | wrong), reply_to=asked)

    access = access_to(machines, Machines(machines, otherwise))
    with pytest.raises(InputError, match=f"client c3: {message}"):
        train(remote_config(images), tmp_path / "run", Quiet(), access=access)
    assert not (tmp_path / "run").exists()


def stumbling(times: int, error: Error | None = None) -> Intercept:
    """Let client c2 fail so many times to register: by an exception, or as a node that cannot be reached."""
    left = [times]

    def intercept(client: str, asked: Message, answer: Callable[[], Message]) -> Message:
        if client != "c2" or asked.metadata.message_type != "query.register" or left[0] == 0:
            return answer()
        left[0] -= 1
        if error is None:
            raise RuntimeError("no memory left")
        return Message(error, reply_to=asked)

    return intercept


def registered(
    images: World, machines: Path, capsys: pytest.CaptureFixture[str], intercept: Intercept
) -> tuple[tuple[str, ...], str]:
    """Let all clients register; return their names and what the server was told meanwhile."""
    access = access_to(machines, Machines(machines, intercept))
    names = tuple(client.name for client in access.load_clients(remote_config(images)).clients)
    return names, capsys.readouterr().out


def test_a_registration_that_failed_is_asked_for_again(
    images: World, machines: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names, told = registered(images, machines, capsys, stumbling(MOST_FAILURES - 1))
    assert names == NAMES
    assert told.count("client c2 did not register") == MOST_FAILURES - 1
    assert "RuntimeError: no memory left" in told


def test_a_program_that_always_fails_to_register_ends_the_training(
    images: World, machines: Path, tmp_path: Path
) -> None:
    access = access_to(machines, Machines(machines, stumbling(99)))
    with pytest.raises(InputError, match=r"client c2 cannot register .*no memory left"):
        train(remote_config(images), tmp_path / "run", Quiet(), access=access)
    assert not (tmp_path / "run").exists()


def test_a_client_that_is_away_may_take_longer_to_register(
    images: World, machines: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may come back at any time, other than a program that fails."""
    away = Error(ErrorCode.NODE_UNAVAILABLE, "not there")
    names, told = registered(images, machines, capsys, stumbling(MOST_FAILURES + 2, away))
    assert names == NAMES
    assert told.count("client c2 did not register") == MOST_FAILURES + 2
