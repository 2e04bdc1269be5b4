"""The preview of a request: what would die and what would be served, and nothing is changed."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from paper_run import delete, describe, fill, paper_run
from tiny_deletions import bytes_of
from tiny_world import Quiet, World

from fedsgt.build.train import train
from fedsgt.reporting.history import LiveCounts
from fedsgt.reporting.impact import ServingState, impact
from fedsgt.reporting.status import run_status
from fedsgt.runs.folder import RunFolder
from fedsgt.serving.evaluation import evaluate, rescore
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn


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


def without_torch(folder: RunFolder) -> dict[str, Any]:
    """Preview a deletion in a process that cannot import torch."""
    code = """
import json, sys
from pathlib import Path
sys.modules["torch"] = None
from fedsgt.reporting.impact import impact
from fedsgt.runs.folder import open_run
from fedsgt.unlearning.request import Deletion
found = impact(open_run(Path(sys.argv[1])), [Deletion("c1", slices=(0,))], accuracy=True)
print(json.dumps(found.to_json()))
"""
    command = [sys.executable, "-c", code, str(folder.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_accuracies_come_from_what_was_kept_if_all_of_it_was(images: World, tmp_path: Path) -> None:
    folder = train(images.config(), tmp_path / "run", Quiet())
    assert without_torch(folder)["before"]["accuracy"] is None
    now = evaluate(folder).strategies["all"]
    told = without_torch(folder)
    assert (told["strategy"], told["before"]["accuracy"]) == ("all", now.accuracy)
    assert told["before"]["accuracy_interval"] == [now.low, now.high]
    unlearn(folder, [Deletion("c1", slices=(0,))])
    then = rescore(folder)
    assert then is not None
    assert told["after"]["accuracy"] == then.strategies["all"].accuracy


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
