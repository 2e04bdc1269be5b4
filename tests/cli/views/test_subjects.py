"""Answers to `fedsgt unlearn --subject`: what is not in force is said first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from paper_run import describe, fill, paper_run

from fedsgt.cli.views import subjects
from fedsgt.cli.views.subjects import preview_text, subject_json, subject_text
from fedsgt.reporting.impact import Impact
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.register import Register, with_registers
from fedsgt.unlearning.subject import SubjectOutcome, delete_subject
from fedsgt.unlearning.unlearn import Receipt


def never(folder: RunFolder, deletions: object) -> Impact:
    raise AssertionError(f"{folder.path} has nothing to preview: {deletions}")


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = paper_run(tmp_path / "run", describe([(0, 1), (1, 0)], [5, 1]))
    fill(made)
    return made


def test_outcomes_without_a_request(folder: RunFolder) -> None:
    refused = SubjectOutcome(folder, "refused", "the key cannot be read; nothing was changed")
    assert subject_text(refused) == f"{folder.path}: NOT IN FORCE: {refused.message}"
    assert subject_json(refused) == {
        "run": str(folder.path),
        "state": "refused",
        "message": refused.message,
        "deleted_before": {},
        "unknown": [],
        "answer": None,
    }
    gone = SubjectOutcome(folder, "gone", "'a' was deleted before", None, {"a": 3}, ("nobody",))
    assert subject_text(gone) == f"{folder.path}: 'a' was deleted before"
    assert subject_json(gone)["deleted_before"] == {"a": 3}
    assert subject_json(gone)["unknown"] == ["nobody"]
    lost = SubjectOutcome(folder, "not known", "the ledger cannot be read")
    assert subject_text(lost) == f"{folder.path}: NOT KNOWN: the ledger cannot be read"


def test_an_answer_that_cannot_be_read_does_not_hide_the_request(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*args: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(subjects, "answer_json", failing)
    monkeypatch.setattr(subjects, "answer_text", failing)
    receipt = Receipt(3, "now", 1, [0], 2, False, pending="its certificate is not written")
    outcome = SubjectOutcome(folder, "deleted", "deleted by request no. 3", receipt)
    assert "in force; its certificate is not written; its details cannot be shown: Input/output error" in (
        subject_text(outcome)
    )
    answer = subject_json(outcome)["answer"]
    assert (answer["position"], answer["in_force"], answer["problem"]) == (3, True, "Input/output error")


def test_previews_of_what_is_not_there(folder: RunFolder, tmp_path: Path) -> None:
    description = folder.live().description
    registers = {number: Register.of(one.name, []) for number, one in enumerate(description.clients)}
    folder.describe_anew(with_registers(folder.path, description, registers))
    words = "nothing would change; no client of this run ever had 'nobody'"
    assert preview_text([folder], ["nobody"], never, False) == f"{folder.path}: {words}"
    (told,) = json.loads(preview_text([folder], ["nobody"], never, True))
    assert (told["impact"], told["message"], told["unknown"]) == (None, words, ["nobody"])
    remote = paper_run(
        tmp_path / "remote",
        describe([(0, 1), (1, 0)], [5, 1]),
        "data.partition=remote",
        "engine.name=flower",
    )
    assert "its clients hold their records" in preview_text([remote], ["nobody"], never, False)
    (outcome,) = delete_subject([remote], ["nobody"])
    assert subject_text(outcome).startswith(f"{remote.path}: NOT DELETED: its clients hold their records")
