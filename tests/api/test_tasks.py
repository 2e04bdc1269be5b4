"""Tasks keep what is costly to open for the next call of their session, and nothing that is out of date."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny_deletions import trained_run
from tiny_world import World

from fedsgt.api import tasks
from fedsgt.data import Record
from fedsgt.unlearning.request import Deletion


def silent(event: Any) -> None:
    """Ignore the event."""


@pytest.fixture(scope="module")
def path(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run(images, tmp_path_factory.mktemp("tasks") / "run")


def test_a_model_is_opened_once_for_a_strategy(path: Path, images: World) -> None:
    state: dict[str, Any] = {}
    records = [Record("x", (images.rows[0].content,))]
    first = tasks.predict(state, path, records, None, False, tell=silent)
    kept = state["predictors"]["all"]
    again = tasks.predict(state, path, records, None, False, tell=silent)
    assert (again.probabilities == first.probabilities).all()
    assert state["predictors"]["all"] is kept
    tasks.predict(state, path, records, "long", False, tell=silent)
    assert list(state["predictors"]) == ["long"], "one model in memory is enough"


def test_another_run_is_opened_anew(path: Path, images: World, tmp_path: Path) -> None:
    state: dict[str, Any] = {}
    other = trained_run(images, tmp_path / "other")
    tasks.impact(state, path, [Deletion("c0", slices=(0,))], tell=silent)
    assert state["folder"].path == path
    tasks.impact(state, other, [Deletion("c0", slices=(0,))], tell=silent)
    assert state["folder"].path == other
