"""Deletion of an id wherever it is: over all clients of a run, and over several runs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from fedsgt.data import derive_salt, record_hash
from fedsgt.errors import InputError
from fedsgt.files.encoding import frames
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.state import Live
from fedsgt.unlearning.erase import SourceReader
from fedsgt.unlearning.recovery import Progress
from fedsgt.unlearning.request import Deletion, DeletionPart, deleted_by, enrolments, holds, locate
from fedsgt.unlearning.unlearn import Receipt, Stopped, accept_parts, complete

State = Literal["deleted", "gone", "unknown", "remote", "refused"]


class NothingHeld(InputError):
    """No client of the run holds any of the ids (any more)."""


@dataclass(frozen=True)
class SubjectOutcome:
    """What happened to the ids in one run."""

    folder: RunFolder = field(repr=False)
    state: State
    """`gone` if they were deleted before, `unknown` if the run never had them, `remote` if only its clients
    can tell, `refused` if the deletion is not in force because of an error."""
    message: str
    receipt: Receipt | None = None


def find_subject(folder: RunFolder, live: Live, ids: Sequence[str], reader: SourceReader) -> list[Deletion]:
    """Return a deletion for each client that holds any of the ids, those that came back once."""
    found = []
    for entry in live.description.clients:
        # A client that came back is found under its first name, with all its enrolments.
        if entry.source is None and entry.node is None:
            numbers = enrolments(live.description, entry.name)
            held = [name for name in ids if any(holds(folder, live, n, name, reader) for n in numbers)]
            if held:
                found.append(Deletion(entry.name, records=tuple(held)))
    return found


def delete_subject(
    folders: Sequence[RunFolder],
    ids: Sequence[str],
    key: str | None = None,
    progress: Progress = lambda share: None,
) -> list[SubjectOutcome]:
    """Delete these ids in all runs, one after another; told to stop, it says what was done until then."""
    found: list[SubjectOutcome] = []
    for folder in folders:
        try:
            found.append(_delete_in(folder, ids, key, progress))
        except Stopped as stopped:
            found.append(SubjectOutcome(folder, "deleted", _words(stopped.receipt), stopped.receipt))
            break
        except (KeyboardInterrupt, SystemExit):
            break
    rest = folders[len(found) :]
    return [
        *found,
        *(SubjectOutcome(folder, "refused", "stopped before it; nothing was changed") for folder in rest),
    ]


def _words(receipt: Receipt) -> str:
    return f"deleted by request no. {receipt.position}"


def _delete_in(folder: RunFolder, ids: Sequence[str], key: str | None, progress: Progress) -> SubjectOutcome:
    """Delete these ids from all clients of the run, as one request; say so if there are none."""
    if folder.config.data.partition == "remote":
        return SubjectOutcome(
            folder, "remote", "its clients hold their records: each deletes its own with fedsgt withdraw"
        )
    reader = SourceReader(folder)

    def find(live: Live) -> list[DeletionPart]:
        deletions = find_subject(folder, live, ids, reader)
        if not deletions:
            raise NothingHeld("no client holds it")
        return locate(folder, live, deletions, reader)

    try:
        accepted = accept_parts(folder, find, _content(folder, ids), key)
    except NothingHeld:
        return _not_held(folder, ids)
    except InputError as error:
        return SubjectOutcome(folder, "refused", str(error))
    receipt = complete(folder, accepted, progress, reader)
    return SubjectOutcome(folder, "deleted", _words(receipt), receipt)


def _not_held(folder: RunFolder, ids: Sequence[str]) -> SubjectOutcome:
    live = folder.live()
    for number in range(len(live.description.clients)):
        before = next((words for name in ids if (words := deleted_by(folder, live, [number], name))), None)
        if before is not None:
            return SubjectOutcome(folder, "gone", before)
    return SubjectOutcome(folder, "unknown", "no client of this run registered it")


def _content(folder: RunFolder, ids: Sequence[str]) -> str:
    """Return a salted hash of the ids, which tells whether a request with the same key is the same."""
    salt = derive_salt(folder.config.data.seed, "")
    codes = sorted(record_hash(salt, "", name) for name in set(ids))
    return hashlib.sha256(frames("fedsgt.subject.1", *codes)).hexdigest()
