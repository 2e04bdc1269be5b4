"""`fedsgt forgetting`: its warning, its figures, its verdicts and its end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from click.testing import Result
from forgetting_world import QUICK, config_of, facts, noise_world
from tiny_deletions import trained_run
from typer.testing import CliRunner

from fedsgt.cli.commands.forgetting import forgetting as command
from fedsgt.errors import InputError
from fedsgt.forgetting.measure import LIRA, measure
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn


@pytest.fixture
def folder(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run from which nothing was deleted yet."""
    world = noise_world(tmp_path_factory.mktemp("forgetting"))
    return open_run(trained_run(world, tmp_path / "run", config_of(world)))


def called(*arguments: object) -> Result:
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_command(folder: RunFolder, tmp_path: Path) -> None:
    unlearn(folder, [Deletion("c0", slices=(0,))])
    options = ("--shadows", 4, "--shadow-rounds", 1, "--strategy", "long", "--limit", 4, "--seed", 3)
    plot = tmp_path / "roc.svg"
    done = called(folder.path, *options, "--json", "--plot", plot)
    assert done.exit_code == 0, done.output
    assert "AN EXPERIMENT FOR SIMULATIONS: this trains on 5 deleted records again" in done.stderr
    assert "Attacking: 100%" in done.stderr
    assert plot.read_text(encoding="utf-8").count("LiRA") == 2
    shown = json.loads(done.stdout)
    by_hand = measure(folder, **QUICK, limit=4, seed=3)
    assert shown | {"seconds": None, "position": None} == facts(by_hand) | {"run": str(folder.path)}
    assert shown["attacks"][LIRA]["deleted"] == 4
    assert not (folder.path / "work").exists()


def test_wrong_input_to_the_command(folder: RunFolder) -> None:
    assert called(folder.path, "--shadows", 3).exit_code == 2
    assert isinstance(called(folder.path, "--plot", "x.txt").exception, InputError)
    failed = called(folder.path)
    assert isinstance(failed.exception, InputError)
    assert failed.stderr == "", "no warning of what is not done"
