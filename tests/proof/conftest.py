"""A small trained run, which tests of proofs copy before they change it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from rebuild_child import warm
from tiny_world import Quiet, World

from fedsgt.build.train import train
from fedsgt.config import Config
from fedsgt.runs.folder import RunFolder, open_run


@pytest.fixture(scope="session")
def config(images: World) -> Config:
    return images.config("peft.layers=1")


@pytest.fixture(scope="session")
def trained(config: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("verify") / "run"
    folder = train(config, path, Quiet())
    # The tests count modules and name groups by these.
    assert folder.description.sequences == [[0, 1, 2], [2, 0, 1], [1, 2, 0]]
    folder.ledger.close()
    return path


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> RunFolder:
    return open_run(shutil.copytree(trained, tmp_path / "run"))


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make temporary folders in one known place; none may be left in the end."""
    warm()  # has a folder of its own, from its first use on
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    yield place
    assert list(place.iterdir()) == []
