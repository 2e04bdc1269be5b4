"""Deletion of an id wherever it is: over all clients of a run, and over several runs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from fedsgt.data import derive_salt, record_hash
from fedsgt.errors import InputError
from fedsgt.files.encoding import frames
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.state import Live
from fedsgt.unlearning.erase import SourceReader
from fedsgt.unlearning.recovery import NOT_IN_FORCE, Progress, reason_of
from fedsgt.unlearning.request import Deletion, DeletionPart, deleted_by, enrolments, holds, locate
from fedsgt.unlearning.unlearn import (
    OutcomeUnknown,
    Receipt,
    accept_parts,
    complete,
    entry_name,
    receipt_after,
)

State = Literal["deleted", "gone", "unknown", "remote", "refused", "not known"]
REMOTE = "its clients hold their records: each deletes its own with fedsgt withdraw"
_UNCHANGED = "nothing was changed"


class NothingHeld(InputError):
    """No client of the run holds any of the ids (any more)."""


@dataclass(frozen=True)
class Search:
    """Places of the ids in one run."""

    deletions: list[Deletion]
    """A deletion for each client that holds any of the ids, those that came back once."""
    gone: Mapping[str, int] = field(default_factory=dict)
    """Ids that nobody holds any more, and the number of the request that deleted each."""
    unknown: tuple[str, ...] = ()
    """Ids that no client of the run ever registered."""

    def words(self) -> list[str]:
        """Return a sentence on each id that was deleted before, and one on those that are unknown."""
        told = [f"{name!r} was deleted before, by request no. {number}" for name, number in self.gone.items()]
        if self.unknown:
            told.append(f"no client of this run ever had {', '.join(map(repr, self.unknown))}")
        return told


@dataclass(frozen=True)
class SubjectOutcome:
    """What happened to the ids in one run."""

    folder: RunFolder = field(repr=False)
    state: State
    """`gone` if they were deleted before, `unknown` if the run never had them, `remote` if only its clients
    can tell, `refused` if the deletion is not in force because of an error, `not known` if nobody can say
    whether it is in force."""
    message: str
    receipt: Receipt | None = None
    gone: Mapping[str, int] = field(default_factory=dict)
    """Ids that were deleted before, and the number of the request that deleted each."""
    unknown: tuple[str, ...] = ()
    """Ids that no client of the run ever registered."""
    stopped: bool = False
    """Whether the process was told to stop in this run or before it."""


def is_remote(folder: RunFolder) -> bool:
    """Whether the run's clients hold their records themselves, on machines of their own."""
    return folder.config.data.partition == "remote"


def find_subject(folder: RunFolder, live: Live, ids: Sequence[str], reader: SourceReader) -> Search:
    """Find the clients that hold the ids, the ids that were deleted before, and those that nobody had."""
    wanted, found, held = list(dict.fromkeys(ids)), [], set[str]()
    for entry in live.description.clients:
        # A client that came back is found under its first name, with all its enrolments.
        if entry.source is None and entry.node is None:
            numbers = enrolments(live.description, entry.name)
            here = [name for name in wanted if any(holds(folder, live, n, name, reader) for n in numbers)]
            held.update(here)
            if here:
                found.append(Deletion(entry.name, records=tuple(here)))
    everybody = range(len(live.description.clients))
    before = {name: deleted_by(folder, live, everybody, name) for name in wanted if name not in held}
    return Search(
        found,
        # The words end with the number of the request.
        {name: int(words.rpartition(" ")[2]) for name, words in before.items() if words is not None},
        tuple(name for name, words in before.items() if words is None),
    )


def delete_subject(
    folders: Sequence[RunFolder],
    ids: Sequence[str],
    key: str | None = None,
    progress: Progress = lambda share: None,
) -> list[SubjectOutcome]:
    """Delete these ids in all runs, one after another; an error in one is its outcome.

    Told to stop, it says what was done until then.
    """
    found: list[SubjectOutcome] = []
    for folder in folders:
        try:
            found.append(_delete_in(folder, ids, key, progress))
        except (InputError, OSError) as error:
            found.append(_failed(folder, error))
        except (KeyboardInterrupt, SystemExit):
            break
        if found[-1].stopped:
            break
    words = f"stopped before it; {_UNCHANGED}"
    rest = folders[len(found) :]
    return [*found, *(SubjectOutcome(folder, "refused", words, stopped=True) for folder in rest)]


def _failed(folder: RunFolder, error: InputError | OSError) -> SubjectOutcome:
    if isinstance(error, OutcomeUnknown):
        stopped = isinstance(error.__cause__, KeyboardInterrupt | SystemExit)
        return SubjectOutcome(folder, "not known", reason_of(error), stopped=stopped)
    told = reason_of(error)
    # Some errors say already that nothing was changed, and that the deletion is not in force.
    for words in (NOT_IN_FORCE, _UNCHANGED):
        told = told.removesuffix(f"; {words}")
    return SubjectOutcome(folder, "refused", f"{told}; {_UNCHANGED}")


def _delete_in(folder: RunFolder, ids: Sequence[str], key: str | None, progress: Progress) -> SubjectOutcome:
    """Delete these ids from all clients of the run, as one request; say so if there are none."""
    if is_remote(folder):
        return SubjectOutcome(folder, "remote", REMOTE)
    reader, name, content = SourceReader(folder), entry_name(key), _content(folder, ids)
    search: Search | None = None

    def find(live: Live) -> list[DeletionPart]:
        nonlocal search
        search = find_subject(folder, live, ids, reader)
        if not search.deletions:
            raise NothingHeld("no client holds it")
        return locate(folder, live, search.deletions, reader)

    stopped = False
    try:
        receipt = accept_parts(folder, find, content, key, name)
        if receipt.repeated:
            search = _search_again(folder, ids, receipt, reader)
        receipt = complete(folder, receipt, progress, reader)
    except NothingHeld:
        return _outcome(folder, search or Search([]))
    except (OSError, KeyboardInterrupt, SystemExit) as error:
        # The request may be in the ledger though the writing or the completion of it did not end well.
        found = receipt_after(folder, name, error, content if key is not None else None)
        if found is None:
            raise
        receipt, stopped = found, not isinstance(error, OSError)
    return _outcome(folder, search or Search([]), receipt, stopped)


def _outcome(
    folder: RunFolder, search: Search, receipt: Receipt | None = None, stopped: bool = False
) -> SubjectOutcome:
    state: State = "gone" if search.gone else "unknown"
    words = search.words()
    if receipt is not None:
        state, words = "deleted", [f"deleted by request no. {receipt.position}", *words]
    return SubjectOutcome(folder, state, "; ".join(words), receipt, search.gone, search.unknown, stopped)


def _search_again(
    folder: RunFolder, ids: Sequence[str], receipt: Receipt, reader: SourceReader
) -> Search | None:
    """Find what a repeated request did not delete; None if that cannot be read, as its answer comes first."""
    try:
        search = find_subject(folder, folder.live(), ids, reader)
    except (InputError, OSError):
        return None
    before = {name: number for name, number in search.gone.items() if number != receipt.position}
    return replace(search, gone=before)


def _content(folder: RunFolder, ids: Sequence[str]) -> str:
    """Return a salted hash of the ids, which tells whether a request with the same key is the same."""
    salt = derive_salt(folder.config.data.seed, "")
    codes = sorted(record_hash(salt, "", name) for name in set(ids))
    return hashlib.sha256(frames("fedsgt.subject.1", *codes)).hexdigest()
