"""Results of deleting an id from several runs, for `fedsgt unlearn --subject`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fedsgt.cli.views.deletions import answer_json, answer_text, dry_run_text, warnings_of

if TYPE_CHECKING:
    from fedsgt.reporting.impact import Impact
    from fedsgt.runs.folder import RunFolder
    from fedsgt.unlearning.request import Deletion
    from fedsgt.unlearning.subject import SubjectOutcome


def subject_json(outcome: SubjectOutcome) -> dict[str, Any]:
    """Return the outcome in one run, for programs."""
    answer = None if outcome.receipt is None else answer_json(outcome.folder, outcome.receipt)
    return {
        "run": str(outcome.folder.path),
        "state": outcome.state,
        "message": outcome.message,
        "answer": answer,
    }


def subject_text(outcome: SubjectOutcome) -> str:
    """Return the outcome in one run, in words."""
    words = {"refused": "NOT IN FORCE: "}.get(outcome.state, "")
    lines = [f"{outcome.folder.path}: {words}{outcome.message}"]
    if outcome.receipt is not None:
        lines += [answer_text(outcome.folder, outcome.receipt), *warnings_of(outcome.receipt)]
    return "\n".join(lines)


def preview_text(
    folders: Sequence[RunFolder],
    ids: Sequence[str],
    preview: Callable[[RunFolder, Sequence[Deletion]], Impact],
    as_json: bool,
) -> str:
    """Return what the deletion would change in each run; nothing is changed."""
    from fedsgt.unlearning.erase import SourceReader
    from fedsgt.unlearning.subject import find_subject

    found = []
    for folder in folders:
        deletions = find_subject(folder, folder.live(), ids, SourceReader(folder))
        found.append((folder, preview(folder, deletions) if deletions else None))
    if as_json:
        told = [{"run": str(folder.path), "impact": impact and impact.to_json()} for folder, impact in found]
        return json.dumps(told, indent=2)
    return "\n\n".join(
        f"{folder.path}: {dry_run_text(impact) if impact else 'no client holds it; nothing would change'}"
        for folder, impact in found
    )
