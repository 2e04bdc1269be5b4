"""Results of deleting an id from several runs, for `fedsgt unlearn --subject`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fedsgt.cli.views.deletions import answer_json, answer_text, dry_run_text, warnings_of
from fedsgt.errors import InputError
from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.reporting.accuracy import AccuracyChange
    from fedsgt.reporting.impact import Impact
    from fedsgt.runs.folder import RunFolder
    from fedsgt.unlearning.request import Deletion
    from fedsgt.unlearning.subject import SubjectOutcome
    from fedsgt.unlearning.unlearn import Receipt


def subject_json(outcome: SubjectOutcome, change: AccuracyChange | None = None) -> dict[str, Any]:
    """Return the outcome in one run, for programs."""
    return {
        "run": str(outcome.folder.path),
        "state": outcome.state,
        "message": outcome.message,
        "deleted_before": dict(outcome.gone),
        "unknown": list(outcome.unknown),
        "answer": None if outcome.receipt is None else _answer_json(outcome.folder, outcome.receipt, change),
    }


def _answer_json(folder: RunFolder, receipt: Receipt, change: AccuracyChange | None) -> dict[str, Any]:
    from fedsgt.unlearning.recovery import reason_of

    try:
        return answer_json(folder, receipt, change)
    except (InputError, OSError) as error:  # the answers about the other runs must not be lost
        told = {
            name: getattr(receipt, name) for name in ("position", "time", "in_force", "pending", "records")
        }
        return told | {"problem": reason_of(error)}


def subject_text(outcome: SubjectOutcome, change: AccuracyChange | None = None) -> str:
    """Return the outcome in one run, in words."""
    words = {"refused": "NOT IN FORCE: ", "not known": "NOT KNOWN: ", "remote": "NOT DELETED: "}
    lines = [f"{outcome.folder.path}: {words.get(outcome.state, '')}{outcome.message}"]
    if outcome.receipt is not None:
        lines += [_answer_text(outcome.folder, outcome.receipt, change), *warnings_of(outcome.receipt)]
    return "\n".join(lines)


def _answer_text(folder: RunFolder, receipt: Receipt, change: AccuracyChange | None) -> str:
    from fedsgt.unlearning.recovery import reason_of

    try:
        return answer_text(folder, receipt, change).plain
    except (InputError, OSError) as error:  # the answers about the other runs must not be lost
        pending = f"; {receipt.pending}" if receipt.pending else ""
        return f"the deletion is in force{pending}; its details cannot be shown: {reason_of(error)}"


def preview_text(
    folders: Sequence[RunFolder],
    ids: Sequence[str],
    preview: Callable[[RunFolder, Sequence[Deletion]], Impact],
    as_json: bool,
) -> str:
    """Return what the deletion would change in each run; nothing is changed."""
    found = [_preview(folder, ids, preview) for folder in folders]
    if as_json:
        return json.dumps([told for told, _ in found], indent=2)
    lines = [(told, [dry_run_text(impact)] if impact else []) for told, impact in found]
    return "\n\n".join("\n".join([f"{told['run']}: {told['message']}", *more]) for told, more in lines)


def _preview(
    folder: RunFolder, ids: Sequence[str], preview: Callable[[RunFolder, Sequence[Deletion]], Impact]
) -> tuple[dict[str, Any], Impact | None]:
    """Return what the deletion would change in one run, for programs, and its effects if there are any."""
    from fedsgt.unlearning.erase import SourceReader
    from fedsgt.unlearning.subject import REMOTE, Search, find_subject, is_remote

    if is_remote(folder):
        search, words = Search([]), [REMOTE]
    else:
        search = find_subject(folder, folder.live(), ids, SourceReader(folder))
        words = search.words()
    held = {name for deletion in search.deletions for name in deletion.records or ()}
    would = f"{counted(len(held), 'id')} would be deleted" if held else "nothing would change"
    impact = preview(folder, search.deletions) if search.deletions else None
    told = {
        "run": str(folder.path),
        "message": "; ".join([would, *words]),
        "deleted_before": dict(search.gone),
        "unknown": list(search.unknown),
        "impact": impact and impact.to_json(),
    }
    return told, impact
