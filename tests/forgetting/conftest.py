"""A trained run to delete from, and a place where temporary folders can be seen."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from forgetting_world import config_of, noise_world
from tiny_deletions import copied, trained_run
from tiny_world import World

from fedsgt.runs.folder import RunFolder


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return noise_world(tmp_path_factory.mktemp("forgetting"))


@pytest.fixture(scope="module")
def source(world: World) -> Path:
    return trained_run(world, world.folder / "run", config_of(world))


@pytest.fixture
def folder(source: Path, tmp_path: Path) -> RunFolder:
    return copied(source, tmp_path / "run")


@pytest.fixture(autouse=True)
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make temporary folders in one known place; none may be left in the end."""
    path = tmp_path / "temporary"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    yield
    assert list(path.iterdir()) == []
