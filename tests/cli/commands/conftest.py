"""Runs that the tests of several commands share: trained once, and copied where a test changes them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

SETTINGS = {
    "data.limit": 120,
    "data.test_limit": 40,
    "data.clients": 3,
    "data.partition": "iid",
    "grouping.groups": 2,
    "plan.budget": 2,
    "engine.workers": 0,
    "training.epochs": 1,
}


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of two groups that was trained from a starter file; tests do not delete from it."""
    from starter_run import train_starter

    return train_starter(tmp_path_factory.mktemp("trained"))


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of three clients, from which tests delete in copies only."""
    from command import shown

    folder = tmp_path_factory.mktemp("source")
    settings = [part for key, value in SETTINGS.items() for part in ("-s", f"{key}={value}")]
    shown("init", str(folder / "my.toml"))
    shown("train", str(folder / "my.toml"), *settings, "-o", str(folder / "run"))
    return folder / "run"


@pytest.fixture
def run(source: Path, tmp_path: Path) -> str:
    """Return a copy of `source` to delete from."""
    shutil.copytree(source, tmp_path / "run")
    return str(tmp_path / "run")
