"""The server's Flower app: its errors reach the command that asked for it, by the file of progress."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from flwr.app import Context, Message, RecordDict
from tiny_world import World

from fedsgt.config import to_toml
from fedsgt.engine.flower.local import RUN, LocalGrid
from fedsgt.errors import InputError
from fedsgt.federation.server.server_app import main


def unused(message: Message, context: Context) -> Message:
    raise AssertionError("nothing is sent to a client")


def called(progress: Path | None, **given: str) -> None:
    values: dict[str, bool | float | int | str] = {
        **{"task": "train", "config": "", "output": "", "server": "", "seed": 0},
        **given,
        "progress": str(progress) if progress else "",
    }
    main(LocalGrid(unused, 1), Context(RUN, 0, {}, RecordDict(), values))


def test_a_run_whose_records_are_on_this_machine_is_refused(images: World, tmp_path: Path) -> None:
    config, progress = tmp_path / "run.toml", tmp_path / "progress.jsonl"
    config.write_text(to_toml(images.config()))
    with pytest.raises(InputError, match=r"data\.partition is given, but the Flower app trains"):
        called(progress, config=str(config), output=str(tmp_path / "run"))
    (line,) = map(json.loads, progress.read_text().splitlines())
    assert line["event"] == "error"
    assert line["message"].endswith("train this run with fedsgt train")
    assert not (tmp_path / "run").exists()


def test_a_training_without_a_configuration_says_how_to_give_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a file of progress, as when a person starts the app by `flwr run`, it is printed."""
    with pytest.raises(InputError, match="config: not given; name the run's TOML file with --run-config"):
        called(None)
    assert capsys.readouterr().err.startswith("error: config: not given")


def test_a_rebuild_of_what_is_no_run_is_reported(tmp_path: Path) -> None:
    progress = tmp_path / "progress.jsonl"
    with pytest.raises(InputError):
        called(progress, task="rebuild", output=str(tmp_path / "none"))
    assert [json.loads(line)["event"] for line in progress.read_text().splitlines()] == ["error"]
