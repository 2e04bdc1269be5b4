"""Results of deletions, in words and for programs; what a person must act on stands first."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from paper_run import delete, describe, fill, paper_run

from fedsgt.cli.views.deletions import (
    answer_json,
    answer_text,
    dry_run_text,
    outcome_json,
    outcome_text,
)
from fedsgt.federation.client.desk_answer import Granted
from fedsgt.federation.client.withdraw import Outcome
from fedsgt.plans.plan import Prefix
from fedsgt.reporting.history import LiveCounts
from fedsgt.reporting.impact import Impact, ServingState
from fedsgt.runs.folder import RunFolder
from fedsgt.unlearning.changes import Changes, ClientShare


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = paper_run(tmp_path / "run", describe([(0, 1), (1, 0)], [5, 1]))
    fill(made)
    return made


def test_an_answer_says_what_is_left(folder: RunFolder) -> None:
    answer = delete(folder, 1)
    assert answer_text(folder, answer).splitlines() == [
        f"request no. {answer.position}: 1 record deleted, groups hit: 1; 3 modules destroyed",
        "client     client-1: 1 record (slice 0); 1 record is left",
        f"files      {len(answer_json(folder, answer)['files_destroyed'])} files of the run destroyed or cut",
        "serving    1 module in 1 sequence, the longest of 1 group",
        f"certificate {answer.certificate}",
    ]
    told = json.loads(json.dumps(answer_json(folder, answer)))
    assert (told["records"], told["groups"], told["modules_died"]) == (1, [1], 3)
    assert (told["live_modules"], told["live_sequences"], told["repeated"]) == (1, 1, False)


def test_exhaustion_comes_first(folder: RunFolder) -> None:
    answer = delete(folder, 0, 1)
    assert answer_text(folder, answer).splitlines()[0] == (
        f"EXHAUSTED: no module is live, nothing is served; next: fedsgt retrain {folder.path}"
    )
    assert answer_json(folder, answer)["live_modules"] == 0


CHANGES = Changes(
    clients=[ClientShare("a", "records", 2, [1], 1)],
    destroyed=["modules/x/manifest.json", "modules/x/module.safetensors"],
    rewritten=["metrics.jsonl"],
    sources=[{"file": "a.parquet", "action": "rewritten", "rows": 2, "reason": None}],
)


def state(modules: int, left: float, accuracy: float | None = None) -> ServingState:
    return ServingState(LiveCounts(modules, modules), modules, left, accuracy)


def rows(text: str) -> dict[str, list[str]]:
    return {line[:26].strip(): line[26:].split() for line in text.splitlines() if len(line) == 46}


def test_a_dry_run_compares_now_and_then() -> None:
    impact = Impact(2, [0], [(0,), (0, 1)], state(4, 2.25, 0.5), state(2, math.inf, 0.25), CHANGES)
    text = dry_run_text(impact)
    assert text.startswith("dry run: nothing was changed\nwould delete   2 records; groups hit: 0\n")
    assert "  client       a: 2 records (in slice 1); 1 record is left\n" in text
    assert "would destroy  2 modules: 0, 0-1\n" in text
    assert "  files        2 files of modules, lines of metrics.jsonl\n" in text
    assert "  source       a.parquet: rewritten without 2 rows\n" in text
    found = rows(text)
    assert found["live modules"] == ["4", "2"]
    assert found["requests until exhausted"] == ["2.2", "no", "end"]
    assert found["accuracy, test records"] == ["50.0", "%", "25.0", "%"]
    assert "NOTHING WOULD BE LEFT" not in text


def test_a_dry_run_that_would_leave_nothing_says_so_before_all_else() -> None:
    text = dry_run_text(Impact(2, [0, 1], [(0,)], state(4, 2.0), state(0, 0.0), CHANGES))
    assert text.splitlines()[1] == "NOTHING WOULD BE LEFT TO SERVE: every module would be dead"
    assert "accuracy" not in text


def test_long_lists_of_modules_are_cut() -> None:
    dying: list[Prefix] = [(number,) for number in range(30)]
    text = dry_run_text(Impact(1, [0], dying, state(40, 2.0), state(10, 1.0), CHANGES))
    assert "would destroy  30 modules: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ...\n" in text


def test_outcomes_of_a_withdrawal() -> None:
    granted = Granted(position=3, time="t", records=1, groups=[], modules_died=0, certificate={"body": {}})
    done = Outcome("x", "accepted", granted=granted, certificate=Path("x-3.json"))
    assert outcome_text(done) == (
        "run x: request no. 3: 1 record deleted, groups hit: none\ncertificate x-3.json"
    )
    told = outcome_json(done)
    assert (told["state"], told["position"], told["certificate"]) == ("accepted", 3, "x-3.json")
    assert "message" not in told
    kept = Outcome("x", "kept", "the desk cannot be reached")
    assert outcome_text(kept) == "run x: the desk cannot be reached"
    assert outcome_json(kept) == {
        "run": "x",
        "state": "kept",
        "message": "the desk cannot be reached",
        "certificate": None,
        "file": None,
    }
