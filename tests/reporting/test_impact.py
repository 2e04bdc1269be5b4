"""The preview of a request: what would die and what would be served, and nothing is changed."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from paper_run import delete, describe, fill, paper_run
from tiny_deletions import bytes_of

from fedsgt.reporting.history import LiveCounts
from fedsgt.reporting.impact import ServingState, impact
from fedsgt.reporting.status import run_status
from fedsgt.runs.folder import RunFolder
from fedsgt.unlearning.request import Deletion


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """Three rotations of three groups, all trained."""
    made = paper_run(tmp_path / "run", describe([(0, 1, 2), (2, 0, 1), (1, 2, 0)], [10, 20, 30]))
    fill(made)
    return made


def test_a_preview_tells_what_the_request_then_does(folder: RunFolder) -> None:
    files, head = bytes_of(folder.path), folder.ledger.head()
    found = impact(folder, [Deletion("client-2", slices=(0,))], accuracy=False)
    assert (found.records, found.groups) == (30, [2])
    assert found.dying == [(0, 1, 2), (1, 2), (1, 2, 0), (2,), (2, 0), (2, 0, 1)]
    assert (found.before.live_counts, found.before.sequences) == (LiveCounts(9, 3), 3)
    assert (found.after.live_counts, found.after.sequences) == (LiveCounts(3, 2), 2)
    assert (found.before.accuracy, found.after.accuracy) == (None, None)
    assert (bytes_of(folder.path), folder.ledger.head()) == (files, head), "nothing was changed"
    answer = delete(folder, 2)
    assert (answer.records, answer.groups, answer.modules_died) == (30, [2], len(found.dying))
    done = run_status(folder)
    assert done.live_counts == found.after.live_counts
    assert done.forecast.requests_left == pytest.approx(found.after.requests_left)


def test_modules_that_were_never_trained_do_not_die(tmp_path: Path) -> None:
    folder = paper_run(tmp_path / "run", describe([(0, 1, 2)], [5, 5, 5]))
    fill(folder, lambda prefix: len(prefix) < 3)
    found = impact(folder, [Deletion("client-1", slices=(0,))], accuracy=False)
    assert found.dying == [(0, 1)]


def test_a_second_hit_of_a_dead_group_kills_nothing_more(folder: RunFolder) -> None:
    delete(folder, 2)
    found = impact(folder, [Deletion("client-2")], accuracy=False)
    assert (found.records, found.groups, found.dying) == (30, [2], [])
    assert found.before.live_counts == found.after.live_counts


def test_a_request_that_leaves_nothing(folder: RunFolder) -> None:
    found = impact(folder, [Deletion(f"client-{number}") for number in range(3)], accuracy=False)
    assert (found.records, found.after.sequences, found.after.requests_left) == (120, 0, 0)
    assert len(found.dying) == 9


def test_the_preview_for_programs(folder: RunFolder) -> None:
    found = json.loads(json.dumps(impact(folder, [Deletion("client-0")], accuracy=False).to_json()))
    assert (found["dry_run"], found["records"], found["groups"]) == (True, 20, [0])
    assert found["modules_dying"] == [[0], [0, 1], [0, 1, 2], [1, 2, 0], [2, 0], [2, 0, 1]]
    assert found["before"].keys() == found["after"].keys()
    assert (found["after"]["live_modules"], found["after"]["live_sequences"]) == (3, 2)
    # JSON has no word for infinity.
    assert ServingState(LiveCounts(1, 1), 1, math.inf, None).to_json()["requests_left"] is None
