"""Training by the server's app, as the command sees it: its lines whole, its errors as errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deployment import Deployment
from tiny_world import Quiet, World

from fedsgt.config import load
from fedsgt.errors import InputError
from fedsgt.federation.server.submit import FlowerRun
from fedsgt.federation.server.tasks import _lines, rebuild_remotely, train_remotely


def test_runs_that_the_desk_would_not_find_are_refused(deployment: Deployment, tmp_path: Path) -> None:
    config = load(None, ["data.partition=remote", f"engine.server={deployment.server.folder}"])
    with pytest.raises(InputError, match=f"finds runs in {deployment.server.runs} only; give -o"):
        train_remotely(config, tmp_path / "elsewhere/run", Quiet())
    assert not (tmp_path / "elsewhere").exists()


def test_a_run_without_a_server_is_told(images: World) -> None:
    run = images.config("data.partition=remote")
    for call in (lambda: train_remotely(run, Path("x"), Quiet()), lambda: rebuild_remotely(run)):
        with pytest.raises(InputError, match=r"engine\.server: not given"):
            call()


def test_a_server_that_is_down_is_told(deployment: Deployment) -> None:
    config = load(None, ["data.partition=remote", f"engine.server={deployment.server.folder}"])
    with pytest.raises(InputError, match="start it: fedsgt server"):
        train_remotely(config, deployment.server.runs / "x", Quiet())
    assert not (deployment.server.runs / "x").exists()


def test_lines_are_read_whole_however_they_are_written(deployment: Deployment, tmp_path: Path) -> None:
    """The app may be in the middle of a line when it is looked at."""
    progress = tmp_path / "progress.jsonl"
    lines = [json.dumps({"event": "note", "text": text}) for text in ("one", "two", "three é")]
    data = "\n".join(lines).encode() + b"\n"
    cut = len(data) - 4
    progress.write_bytes(data[:cut])
    found = _lines(progress, FlowerRun(deployment.server, 1))
    assert [next(found)["text"] for _ in range(2)] == ["one", "two"]
    with progress.open("ab") as file:
        file.write(data[cut:])
    assert next(found)["text"] == "three é"


def test_an_app_that_ended_without_a_word_is_an_error(deployment: Deployment, tmp_path: Path) -> None:
    """Here nobody answers at all: the command does not wait for ever."""
    progress = tmp_path / "progress.jsonl"
    progress.touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedsgt.federation.server.tasks.ASK_SECONDS", 0.0)
        with pytest.raises(InputError, match="no SuperLink of this server answers"):
            next(_lines(progress, FlowerRun(deployment.server, 1)))
