"""The history of a run: its requests in words, and what was live after each."""

from __future__ import annotations

from pathlib import Path

import pytest
from paper_run import delete, describe, fill, paper_run, rebuild

from fedsgt.ledger.kinds import Kind
from fedsgt.reporting.history import History, LiveCounts, count_live, history
from fedsgt.reporting.status import run_status
from fedsgt.runs.folder import RunFolder


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """Three rotations of three groups, all trained."""
    made = paper_run(tmp_path / "run", describe([(0, 1, 2), (2, 0, 1), (1, 2, 0)], [10, 20, 30]))
    fill(made)
    return made


def test_after_retraining_the_past_is_what_the_ledger_counted(folder: RunFolder) -> None:
    delete(folder, 2)
    delete(folder, 0, 1, index=0)
    rebuild(folder)
    delete(folder, 1, index=1)
    found = run_status(folder)
    assert [request.after for request in found.past.requests] == [
        LiveCounts(3, None),
        LiveCounts(0, None),
        LiveCounts(3, 2),
    ]
    assert [(step.requests, step.trained, step.live_counts.modules) for step in found.past.steps] == [
        (0, True, 9),
        (1, False, 3),
        (2, False, 0),
        (2, True, 9),
        (3, False, 3),
        (3, False, 3),
    ]
    assert found.new_groups == {0, 1, 2}
    assert (found.state((2, 0)), found.state((1,))) == ("new", "dead")


def test_modules_that_were_never_trained_did_not_die_in_the_past(tmp_path: Path) -> None:
    folder = paper_run(tmp_path / "run", describe([(0, 1, 2)], [5, 5, 5]))
    fill(folder, lambda prefix: len(prefix) < 3)
    delete(folder, 1)
    rebuild(folder)
    (served,) = run_status(folder).past.requests
    assert (served.modules_died, served.after.modules) == (2, 1)


def test_a_request_that_is_not_finished_says_so(folder: RunFolder) -> None:
    part = {
        "number": 0,
        "client": "",
        "scope": "slice",
        "slices": [0],
        "records": [],
        "counts": [10],
        "count": 10,
    }
    with folder.ledger.writing() as writer:
        writer.append(Kind.REQUEST, {"parts": [part], "groups": [0], "modules_died": 6})
    (served,) = run_status(folder).past.requests
    assert not served.complete
    assert served.after == LiveCounts(3, 2)


def test_requests_in_words(folder: RunFolder) -> None:
    parts = [
        {
            "number": 0,
            "client": "",
            "scope": "client",
            "slices": [0, 1],
            "records": [],
            "counts": [10, 10],
            "count": 20,
        },
        {
            "number": 1,
            "client": "",
            "scope": "records",
            "slices": [0],
            "records": ["a"],
            "counts": [1],
            "count": 1,
        },
        {
            "number": 2,
            "client": "",
            "scope": "slice",
            "slices": [0, 1],
            "records": [],
            "counts": [30, 30],
            "count": 60,
        },
    ]
    with folder.ledger.writing() as writer:
        writer.append(Kind.REQUEST, {"parts": parts, "groups": [0, 1, 2], "modules_died": 9})
    (served,) = run_status(folder).past.requests
    assert served.deleted == "1 record, 2 slices (60 records), 1 whole client (20 records)"


def test_modules_that_sequences_share_are_counted_once() -> None:
    assert count_live([(0, 1, 2), (0, 1, 3), (2,), ()]) == LiveCounts(5, 3)
    assert count_live([(0, 1), (0, 1), (0,)]) == LiveCounts(2, 2)
    assert count_live([(), ()]) == count_live([]) == LiveCounts(0, 0)


def test_the_history_says_whether_it_was_retrained_and_what_is_not_known(folder: RunFolder) -> None:
    def now() -> History:
        return history(folder.live(), folder.ledger.entries(), folder.present())

    assert (now().retrained, now().groups_unknown) == (False, False)
    delete(folder, 0)
    assert (now().retrained, now().groups_unknown) == (False, False)
    rebuild(folder)
    # The description of before is gone, and with it the number of groups that were live then.
    assert (now().retrained, now().groups_unknown) == (True, True)
    assert now().steps[-1].live_counts == LiveCounts(9, 3)
