"""Answers to `fedsgt unlearn --subject`: what is not in force is said first."""

from __future__ import annotations

from pathlib import Path

from paper_run import describe, fill, paper_run

from fedsgt.cli.views.subjects import preview_text, subject_json, subject_text
from fedsgt.reporting.impact import Impact
from fedsgt.runs.folder import RunFolder
from fedsgt.unlearning.subject import SubjectOutcome


def never(folder: RunFolder, deletions: object) -> Impact:
    raise AssertionError(f"{folder.path} has nothing to preview: {deletions}")


def test_outcomes_without_a_request(tmp_path: Path) -> None:
    folder = paper_run(tmp_path / "run", describe([(0, 1), (1, 0)], [5, 1]))
    fill(folder)
    refused = SubjectOutcome(folder, "refused", "the key cannot be read; nothing was changed")
    assert subject_text(refused) == f"{folder.path}: NOT IN FORCE: {refused.message}"
    assert subject_json(refused) == {
        "run": str(folder.path),
        "state": "refused",
        "message": refused.message,
        "answer": None,
    }
    gone = SubjectOutcome(folder, "gone", "was deleted before, by request no. 3")
    assert subject_text(gone) == f"{folder.path}: was deleted before, by request no. 3"
    assert "no client holds it; nothing would change" in preview_text([folder], ["nobody"], never, False)
    assert '"impact": null' in preview_text([folder], ["nobody"], never, True)
