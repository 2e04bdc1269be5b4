"""A deletion, from the request to its certificate.

The request is in the ledger before it is answered, and from then on no module that it hit is served or
trained. Then everything that depends on its records is destroyed. The ledger notes what is condemned before
that, and that it is destroyed afterwards. A process that is killed at any moment leaves the request either
unknown or for `recover` to complete.

A deletion is in force or it is not, and everybody is told which: an error says that it is not, unless it is
`OutcomeUnknown`, and a receipt says that it is.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedsgt.certificates.certify import certificate_path
from fedsgt.errors import InputError
from fedsgt.ledger.kinds import RECORDS_MOVED, Kind
from fedsgt.ledger.ledger import Entry, LedgerError
from fedsgt.runs.destruction import check_links
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.state import Live
from fedsgt.unlearning.erase import SourceReader
from fedsgt.unlearning.outgoing import Outgoing
from fedsgt.unlearning.recovery import (
    NOT_IN_FORCE,
    PendingWork,
    Progress,
    check_can_complete,
    entry_of,
    reason_of,
    recover,
    unfinished,
)
from fedsgt.unlearning.request import Deletion, DeletionPart, content_hash, groups_hit, locate

__all__ = [
    "KeyUsed",
    "OutcomeUnknown",
    "Receipt",
    "Stopped",
    "accept",
    "accept_parts",
    "complete",
    "entry_name",
    "preview",
    "receipt_after",
    "recover",
    "unfinished",
    "unlearn",
]

Locate = Callable[[Live], list[DeletionPart]]


class KeyUsed(InputError):
    """Error for an idempotency key that came with another request before."""


class OutcomeUnknown(InputError):
    """Error for a request of which nobody can say now whether it is in the ledger."""


class Stopped(KeyboardInterrupt):
    """The process was told to stop after the request was accepted: the deletion is in force."""

    def __init__(self, receipt: Receipt) -> None:
        super().__init__()
        self.receipt = receipt


@dataclass(frozen=True)
class Receipt:
    """Result of a deletion request."""

    position: int
    """Position of the request in the ledger, which is its number."""
    time: str
    records: int
    """Number of records that it deleted."""
    groups: list[int]
    """Groups that were hit."""
    modules_died: int
    """Number of modules of the plan that died, trained or not."""
    repeated: bool
    """Whether an earlier request came with the same key, so that this is its receipt."""
    in_force: bool = True
    """Always true: a request that is not in force gets an error and no receipt."""
    pending: str | None = None
    """What is not done yet and why, in words; None once the request is complete."""
    destroyed: int = 0
    """Number of trained modules that were destroyed, or are to be."""
    certificate: Path | None = None
    """Path of the certificate; None until the request is completed."""
    unreadable: tuple[Path, ...] = ()
    """Files that deleted records were in and that could not be read, so that the records are still there."""
    sources: tuple[dict[str, Any], ...] = ()
    """What happened to each file of the data's owners that deleted records were in."""
    key_changes: tuple[str, ...] = ()
    """Sentences on changes of the signing key that were found on the way."""

    @classmethod
    def of(cls, entry: Entry, repeated: bool = False) -> Receipt:
        """Return the receipt of a request that is in the ledger and not completed yet."""
        count = sum(part["count"] for part in entry.body["parts"])
        body = entry.body
        return cls(entry.position, entry.time, count, body["groups"], body["modules_died"], repeated)


def unlearn(
    folder: RunFolder,
    deletions: Sequence[Deletion],
    key: str | None = None,
    progress: Progress = lambda share: None,
    outgoing: Outgoing | None = None,
) -> Receipt:
    """Accept the request, destroy what depends on its records, and write its certificate.

    `outgoing` is to get the statistics that end with the request, from which `renewal.renew` makes new ones.
    Raises `Stopped` if the process is told to stop after the request was accepted.
    """
    reader, name, before = SourceReader(folder), entry_name(key), folder.live()
    try:
        accepted = accept(folder, deletions, key, reader, name)
        if outgoing is not None:
            outgoing.take(folder, before, reader)
        return complete(folder, accepted, progress, reader)
    except (KeyboardInterrupt, SystemExit) as stop:
        receipt = receipt_after(folder, name, stop)
        if receipt is None:
            raise
        raise Stopped(receipt) from None


def receipt_after(
    folder: RunFolder, name: str, error: BaseException, content: str | None = None
) -> Receipt | None:
    """Return the receipt of the request of this name after an error or a stop; None if it is not in force.

    With `content`, an entry of the same name and another content is not this request.
    """
    found = _find_again(folder, name, error)
    if found is None or (content is not None and found.body.get("content") != content):
        return None
    reason = reason_of(error) if isinstance(error, Exception) else "it was stopped"
    return _stopped_short(Receipt.of(found), reason)


def complete(
    folder: RunFolder,
    receipt: Receipt,
    progress: Progress = lambda share: None,
    reader: SourceReader | None = None,
) -> Receipt:
    """Destroy what depends on the records of an accepted request, write its certificate, and say so.

    What cannot be done is in the receipt, with its reason: from here on no error may hide that the deletion
    is in force.
    """
    reader = reader or SourceReader(folder)
    try:
        recovery = recover(folder, progress, reader)
        condemned = entry_of(folder, Kind.CONDEMNED, receipt.position)
        destroyed = entry_of(folder, Kind.DESTROYED, receipt.position)
        pending = recovery.told_of(receipt.position)
        return replace(
            receipt,
            pending=pending,
            destroyed=_modules_in(condemned),
            certificate=certificate_path(folder, receipt.position) if pending is None else None,
            unreadable=tuple(reader.unreadable(folder.live())),
            sources=tuple(destroyed.body.get("sources", ())) if destroyed else (),
            key_changes=tuple(recovery.key_changes()),
        )
    except Exception as error:
        return _stopped_short(receipt, reason_of(error))


def _stopped_short(receipt: Receipt, reason: str) -> Receipt:
    # How far it came is not known here; the next command that completes it finds out.
    return replace(receipt, pending=PendingWork(receipt.position, "destruction", reason).words())


def accept(
    folder: RunFolder,
    deletions: Sequence[Deletion],
    key: str | None = None,
    reader: SourceReader | None = None,
    name: str | None = None,
) -> Receipt:
    """Put the request into the ledger; once this returns, it is on disk and in force everywhere.

    `reader` keeps the clients' records that were read to find the slices, for the steps that follow. By
    `name` the ledger's entry can be found again; it is the key if there is one.
    """
    if key is not None and not key.strip():
        raise InputError("the idempotency key is empty; give a text that names this request")
    content = content_hash(folder, deletions)
    reader = reader or SourceReader(folder)
    return accept_parts(folder, lambda live: locate(folder, live, deletions, reader), content, key, name)


def accept_parts(
    folder: RunFolder, find: Locate, content: str, key: str | None = None, name: str | None = None
) -> Receipt:
    """Put the parts that `find` returns into the ledger as one request.

    `content` tells the request from others that come with the same key.
    """
    name = name or entry_name(key)
    # The parts are found without the ledger's lock, which reading records would hold for long. So everything
    # is done once more if the run changed between finding the parts and writing them.
    while True:
        if key is not None and (known := folder.ledger.find(key)) is not None:
            return _first_receipt(known, content, key)
        check_can_complete(folder)
        live = folder.live()
        try:
            body = _body(live, find(live)) | {"content": content if key is not None else None}
        except InputError:
            if key is not None and folder.ledger.find(key) is not None:
                continue  # the same request came in twice at once, and the other was faster
            raise
        entry = _write(folder, live, body, name)
        # Another request with the same key may have been faster; then the first lines above tell.
        if entry is not None and entry.body["content"] == body["content"]:
            return Receipt.of(entry)


def entry_name(key: str | None) -> str:
    """Return the name of a new request in the ledger, by which it is found again if writing it fails."""
    return key if key is not None else f"fedsgt {secrets.token_hex(16)}"


def _write(folder: RunFolder, live: Live, body: dict[str, Any], name: str) -> Entry | None:
    """Write the request to the ledger; None if records moved, so that they must be located again."""
    begun = False
    try:
        with folder.ledger.writing() as writer:
            newer = writer.entries(after=live.position)
            # If records moved meanwhile, the parts may name the wrong slices and are looked for again.
            if any(entry.kind in RECORDS_MOVED for entry in newer):
                return None
            begun = True
            return writer.append(Kind.REQUEST, body, name)
    except LedgerError as error:
        found = _find_again(folder, name, error) if begun else None
        if found is None:
            raise type(error)(f"{error}; {NOT_IN_FORCE}") from error
        return found


def _find_again(folder: RunFolder, name: str, error: BaseException) -> Entry | None:
    """Return the request if it is in the ledger, though the writing of it did not end well."""
    try:
        # Under the ledger's lock: a commit whose answer was lost is over once the lock is free.
        with folder.ledger.writing() as writer:
            return writer.find(name)
    except (InputError, OSError):
        told = error if isinstance(error, Exception) else "stopped"
        raise OutcomeUnknown(
            f"{told}; it is not known whether the deletion is in force: repeat the request "
            f"with the same --key, or see fedsgt status {folder.path}"
        ) from error


def preview(folder: RunFolder, deletions: Sequence[Deletion]) -> tuple[Live, Live, dict[str, Any]]:
    """Return the state now, the state after this request, and its ledger entry; change nothing."""
    check_links(folder)
    live = folder.live()
    body = _body(live, locate(folder, live, deletions, SourceReader(folder)))
    return live, live.after([Entry(live.position + 1, Kind.REQUEST, "", body, "", "")]), body


def _body(live: Live, parts: Sequence[DeletionPart]) -> dict[str, Any]:
    groups = groups_hit(live.description, parts)
    return {
        "parts": [part.to_json() for part in parts],
        "groups": groups,
        # Named while the fingerprints are known: a certificate may be made after the next training.
        "hit": live.description.fingerprints_of(groups),
        "modules_died": len(live.dying(groups)),
    }


def _first_receipt(known: Entry, content: str, key: str) -> Receipt:
    if known.body.get("content") != content:
        raise KeyUsed(
            f"the key {key!r} came with another request before (no. {known.position}); "
            "a new request needs a key of its own"
        )
    return Receipt.of(known, repeated=True)


def _modules_in(condemned: Entry | None) -> int:
    return sum(artefact["kind"] == "module" for artefact in condemned.body["artefacts"]) if condemned else 0
