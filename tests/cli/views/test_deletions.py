"""Results of deletions, in words and for programs; what a person must act on stands first."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from paper_run import delete, describe, fill, paper_run

from fedsgt.cli.views.deletions import (
    answer_json,
    answer_text,
    dry_run_text,
    outcome_json,
    outcome_text,
    print_text,
)
from fedsgt.federation.client.desk_answer import Granted
from fedsgt.federation.client.withdraw import Outcome
from fedsgt.plans.plan import Prefix
from fedsgt.reporting.accuracy import AccuracyChange
from fedsgt.reporting.advice import Advice
from fedsgt.reporting.history import LiveCounts
from fedsgt.reporting.impact import Impact, ServingState
from fedsgt.runs.folder import RunFolder
from fedsgt.serving.accuracy import Accuracy, BetterStrategy
from fedsgt.unlearning.changes import Changes, ClientShare


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = paper_run(tmp_path / "run", describe([(0, 1), (1, 0)], [5, 1]))
    fill(made)
    return made


def test_an_answer_says_what_is_left(folder: RunFolder) -> None:
    answer = delete(folder, 1)
    assert answer_text(folder, answer).plain.splitlines() == [
        f"request no. {answer.position}: 1 record deleted, groups hit: 1; 3 modules destroyed",
        "client     client-1: 1 record (slice 0); 1 record is left",
        f"files      {len(answer_json(folder, answer)['files_destroyed'])} files of the run destroyed or cut",
        "serving    1 module in 1 sequence, the longest of 1 group",
        f"accuracy   not known; fedsgt evaluate {folder.path} measures it",
        f"certificate {answer.certificate}",
    ]
    told = json.loads(json.dumps(answer_json(folder, answer)))
    assert (told["records"], told["groups"], told["modules_died"]) == (1, [1], 3)
    assert (told["live_modules"], told["live_sequences"], told["repeated"]) == (1, 1, False)


def test_exhaustion_comes_first(folder: RunFolder) -> None:
    answer = delete(folder, 0, 1)
    text = answer_text(folder, answer)
    assert text.plain.splitlines()[0] == (
        f"EXHAUSTED: no module is live, nothing is served; next: fedsgt retrain {folder.path}"
    )
    assert text.spans[0].style == "bold red"
    assert "accuracy" not in text.plain, "nothing is served"
    assert answer_json(folder, answer)["live_modules"] == 0


def near(accuracy: float) -> Accuracy:
    return Accuracy(accuracy, accuracy - 0.05, accuracy + 0.05)


def test_an_answer_has_accuracy_now_before_and_as_expected(folder: RunFolder) -> None:
    answer = delete(folder, 1)
    change = AccuracyChange("long", near(0.92), near(0.941), 0.9, 400)
    text = answer_text(folder, answer, change)
    assert (
        "accuracy   92.0% (95 % interval 87.0 to 97.0; LongSeq, 400 test records); 94.1% before; "
        "90.0% was expected"
    ) in text.plain.splitlines()
    assert text.plain.startswith("request no.")
    assert text.spans == [], "nothing to act on"
    unknown = AccuracyChange("long", near(0.92), None, None, 400)
    assert "LongSeq, 400 test records)\n" in answer_text(folder, answer, unknown).plain
    told = json.loads(json.dumps(answer_json(folder, answer, change)))
    assert (told["accuracy"]["now"]["low"], told["accuracy"]["expected"]) == (pytest.approx(0.87), 0.9)
    assert answer_json(folder, answer)["accuracy"] is None


def test_a_fall_of_accuracy_is_told_first(folder: RunFolder) -> None:
    answer = delete(folder, 1)
    change = AccuracyChange(
        "all",
        near(0.17),
        near(0.94),
        0.8,
        400,
        BetterStrategy("long", 0.63, "all", 0.17),
        Advice("now", "Retrain now: accuracy is 17.0%."),
    )
    text = answer_text(folder, answer, change)
    assert text.plain.splitlines()[:3] == [
        f"accuracy fell from 94.0% to 17.0% with this deletion; next: fedsgt retrain {folder.path}",
        "Retrain now: accuracy is 17.0%.",
        'LongSeq would be right on 63.0% of the test records (AllSeq: 17.0%): set serving.strategy = "long"',
    ]
    assert [span.style for span in text.spans] == ["bold yellow", "bold red", "bold yellow"]


def test_colours_are_for_terminals_and_no_line_is_broken(
    folder: RunFolder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = answer_text(folder, delete(folder, 0, 1))
    print_text(text)
    assert capsys.readouterr().out == text.plain + "\n"
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    print_text(text)
    assert "\x1b[1;31mEXHAUSTED" in capsys.readouterr().out


CHANGES = Changes(
    clients=[ClientShare("a", "records", 2, [1], 1)],
    destroyed=["modules/x/manifest.json", "modules/x/module.safetensors"],
    rewritten=["metrics.jsonl"],
    sources=[{"file": "a.parquet", "action": "rewritten", "rows": 2, "reason": None}],
)


def state(modules: int, left: float, accuracy: Accuracy | None = None) -> ServingState:
    return ServingState(LiveCounts(modules, modules), modules, left, accuracy)


def rows(text: str) -> dict[str, list[str]]:
    return {line[:26].strip(): line[26:].split() for line in text.splitlines() if len(line) == 46}


def test_a_dry_run_compares_now_and_then() -> None:
    impact = Impact(
        2, [0], [(0,), (0, 1)], state(4, 2.25, near(0.5)), state(2, math.inf, near(0.25)), CHANGES
    )
    text = dry_run_text(impact)
    assert text.startswith("dry run: nothing was changed\nwould delete   2 records; groups hit: 0\n")
    assert "  client       a: 2 records (in slice 1); 1 record is left\n" in text
    assert "would destroy  2 modules: 0, 0-1\n" in text
    assert "  files        2 files of modules, lines of metrics.jsonl\n" in text
    assert "  source       a.parquet: rewritten without 2 rows\n" in text
    found = rows(text)
    assert found["live modules"] == ["4", "2"]
    assert found["requests until exhausted"] == ["2.2", "no", "end"]
    assert found["accuracy, AllSeq"] == ["50.0%", "25.0%"]
    assert found["95 % interval"] == ["45.0-55.0", "20.0-30.0"]
    after = replace(impact.after, better=BetterStrategy("long", 0.4, "all", 0.25))
    better = dry_run_text(replace(impact, after=after)).splitlines()[-1]
    assert better.startswith("then LongSeq would be right on 40.0%")
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
