"""Facts about a run in words: modules that are there, those that are live, and unknown numbers."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from paper_run import delete, describe, fill, paper_run

from fedsgt.cli.views.runs import run_json, run_text, summary_json, summary_line
from fedsgt.engine.flower.traffic import ClientTraffic, Traffic
from fedsgt.runs.artefacts import TRAFFIC
from fedsgt.runs.folder import RunFolder
from fedsgt.serving.accuracy import Accuracy, Evaluation


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = paper_run(tmp_path / "run", describe([(0, 1, 2), (2, 0)], [5, 6, 7]))
    fill(made, lambda prefix: prefix != (0, 1, 2))
    return made


def test_a_line_counts_what_is_trained(folder: RunFolder) -> None:
    summary = summary_json(folder)
    assert (summary["trained"], summary["wanted"], summary["accuracy"]) == (4, 5, None)
    assert summary_line(summary) == f"{folder.path}: 4 of 5 modules, 3 clients, 3 groups, rotations"
    assert summary_line({**summary, "accuracy": 0.5}).endswith(", rotations, AllSeq 50.0%")
    long = {**summary, "accuracy": 0.5, "strategy": "long"}
    assert summary_line(long).endswith(", rotations, LongSeq 50.0%")


def test_the_accuracy_is_that_of_the_strategy_in_use(tmp_path: Path) -> None:
    folder = paper_run(tmp_path / "long", describe([(0, 1)], [5, 5]), "serving.strategy=long")
    fill(folder)
    cells = {"all": Accuracy(0.25, 0.2, 0.3), "long": Accuracy(0.75, 0.7, 0.8)}
    found = Evaluation(folder.ledger.head(), 40, [[cells["all"]] * 2], cells)
    (folder.path / "evaluation.json").write_text(found.to_text())
    assert (summary_json(folder)["accuracy"], run_json(folder)["accuracy"]) == (0.75, 0.75)
    assert "accuracy   75.0% (LongSeq, see fedsgt evaluate)" in run_text(folder)


def test_the_screen_marks_what_is_not_live(folder: RunFolder) -> None:
    lines = run_text(folder).splitlines()
    assert lines[0] == f"{folder.path}: 4 of 5 modules live"
    assert lines[2].endswith("3 clients with 10 to 14 records")
    start = next(index for index, line in enumerate(lines) if line.startswith("sequences, group by group"))
    assert lines[start + 1 : start + 3] == ["       0   0  1  ·", "       1   2  0"]
    delete(folder, 2)
    after = run_text(folder).splitlines()
    assert after[0] == f"{folder.path}: 2 of 5 modules live"
    assert after[2].endswith(" records left")
    assert sum(run_json(folder)["records_left"].values()) < 36
    assert after[start + 1 : start + 3] == ["       0   0  1  ·", "       1   ·  ·"]


def test_damaged_modules_are_not_live(folder: RunFolder) -> None:
    (first, *_) = run_json(folder)["modules"]
    assert first["live"] is True
    path = folder.path / "modules" / first["key"] / "module.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x55")
    (first, *_) = run_json(folder)["modules"]
    assert (first["live"], first["sha256"]) == (False, None)
    assert summary_json(folder)["trained"] == 4, "the short list does not read modules"


def test_json_is_json_and_counts_records_of_clients(folder: RunFolder) -> None:
    told = run_json(folder)
    assert json.loads(json.dumps(told)) == told
    assert told["records"] == {"client-0": 10, "client-1": 12, "client-2": 14}
    assert told["traffic"] is None


def test_traffic_is_told_if_there_was_any(folder: RunFolder) -> None:
    counts = Traffic(1, {"client-0": ClientTraffic(2, 3, 4000, 1000), "client-1": ClientTraffic(4, 5, 0, 0)})
    (folder.path / TRAFFIC).write_text(json.dumps(asdict(counts)))
    text = run_text(folder)
    assert "1 round; a client on average got 3.0 messages for 4.0 updates" in text
    told = run_json(folder)["traffic"]
    assert told["mean"] == {"messages": 3, "modules": 4, "down": 2000, "up": 500}
    assert told["clients"]["client-0"]["down"] == 4000
