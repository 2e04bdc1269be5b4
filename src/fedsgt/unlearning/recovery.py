"""Completion of accepted requests: destruction, erasure at the source, certificates; and what is pending.

A request in the ledger is in force for good. If it cannot be completed now (a key, a disk, permissions), that
is reported with the reason and tried again by the next command; it stands in no other request's way.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fedsgt.certificates.certify import certificate_path, certify
from fedsgt.certificates.keys import check_signing_key, public_name
from fedsgt.errors import InputError
from fedsgt.files.durable import finished_path, remove_abandoned
from fedsgt.ledger.kinds import Kind
from fedsgt.ledger.ledger import Entry
from fedsgt.runs.artefacts import CERTIFICATES, REGISTRY, STORE_FOLDERS, STORE_LOCK
from fedsgt.runs.dependencies import Dead
from fedsgt.runs.destruction import check_links, destroy, doomed
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.state import Live, deleted_after
from fedsgt.store import Folder, StoreError
from fedsgt.unlearning.erase import (
    RowsByFile,
    SourceReader,
    condemned_rows,
    erase_rows,
    rows_to_erase,
    without_rows,
)
from fedsgt.words import one_line

Progress = Callable[[float], None]
NOT_IN_FORCE = "nothing was changed, the deletion is not in force"
_UNCHANGED = "; nothing was changed"


class PendingWork(NamedTuple):
    """Part of a request in force that is not done yet."""

    position: int
    """Number of the request."""
    what: Literal["destruction", "certificate"]
    reason: str
    """Why it could not be done; empty if it was not tried."""

    def words(self) -> str:
        """Return what is pending and why, as the end of a sentence."""
        because = f"because {self.reason}" if self.reason else "as it was cut short"
        if self.what == "certificate":
            return f"its certificate is pending {because}"
        return (
            f"its destruction is pending {because}; its modules are not served, but bytes are still on disk"
        )


@dataclass(frozen=True)
class Recovery:
    """Result of trying to complete every accepted request."""

    completed: list[int] = field(default_factory=list)
    """Positions of the requests that were completed now."""
    pending: list[PendingWork] = field(default_factory=list)
    """Work that could not be done, at most one entry for each request."""
    new_keys: tuple[Entry, ...] = ()
    """Entries of the ledger by which a signing key took the place of another."""

    @property
    def undestroyed(self) -> dict[int, str]:
        """Reason for each request whose files could not be destroyed."""
        return {work.position: work.reason for work in self.pending if work.what == "destruction"}

    def told_of(self, position: int) -> str | None:
        """Return in words what is pending of this request; None if it is complete."""
        return next((work.words() for work in self.pending if work.position == position), None)

    def key_changes(self) -> list[str]:
        """Return a sentence for each change of the signing key."""
        return [
            f"the signing key of this run has changed, as {entry.body['reason']}: key {entry.body['key']} "
            f"signs from now on, and the ledger says so (entry {entry.position}); earlier certificates are "
            f"checked with {public_name(entry.body['previous'])}"
            for entry in self.new_keys
        ]


def check_can_complete(folder: RunFolder) -> None:
    """Check before a request is accepted that its files can be destroyed and its certificate be signed.

    Every request waits for this, so only the uppermost folders are looked at.
    """
    try:
        check_links(folder)
        check_signing_key(folder)
        for place in _written(folder):
            if place.exists() and not os.access(place, os.W_OK):
                raise InputError(f"{place}: this user may not write there, or the disk is read-only")
    except (InputError, OSError) as error:
        raise InputError(f"{reason_of(error).removesuffix(_UNCHANGED)}; {NOT_IN_FORCE}") from None


def _written(folder: RunFolder) -> Iterator[Path]:
    """List the places in which a completion may write or remove something, there or not."""
    held = {kind.names[0] for kind in REGISTRY if kind.label and (kind.deep or len(kind.names) > 1)}
    yield from (folder.path, folder.path / STORE_LOCK, folder.path / CERTIFICATES)
    yield from (folder.path / name for name in sorted(held))
    objects = folder.modules.objects
    # Other folders of a store elsewhere are not the run's.
    if isinstance(objects, Folder):
        yield from (objects.root / name for name in STORE_FOLDERS)


def recover(
    folder: RunFolder, progress: Progress = lambda share: None, reader: SourceReader | None = None
) -> Recovery:
    """Complete every request that was accepted and not completed; report those that cannot be."""
    _sweep(folder)
    waiting = unfinished(folder)
    if not waiting:
        return Recovery()
    before = len(folder.live().keys)
    reader, found = reader or SourceReader(folder), Recovery()
    try:
        with reader.publishing() as live:
            _complete_all(folder, live, reader, progress, found)
    # The lock's file or the folder cannot be written: nothing could be tried.
    except (InputError, OSError) as error:
        tried = {*found.completed, *(work.position for work in found.pending)}
        left = [_pending(folder, request, error) for request in waiting if request.position not in tried]
        found.pending.extend(left)
    changed = [entry for entry in folder.live().keys[before:] if entry.body["previous"] is not None]
    return replace(found, new_keys=tuple(changed))


def unfinished(folder: RunFolder, live: Live | None = None) -> list[Entry]:
    """Return the requests that are not known to be destroyed, or have no certificate.

    In a copy of a run, the certificates of earlier requests are those of the original.
    """
    live = live or folder.live()
    place = folder.path / CERTIFICATES
    signed = set(os.listdir(place)) if place.is_dir() else set()
    return [
        entry
        for entry in live.requests
        if entry.position not in live.finished
        or (entry.position > live.copied and certificate_path(folder, entry.position).name not in signed)
    ]


def pending_work(folder: RunFolder) -> list[PendingWork]:
    """Return the work that is pending, with the reason as far as it can be seen without trying again."""
    waiting = unfinished(folder)
    if not waiting:
        return []
    reason = ""
    try:
        check_can_complete(folder)
    except InputError as error:
        reason = str(error).removesuffix(f"; {NOT_IN_FORCE}")
    finished = folder.live().finished
    return [
        PendingWork(
            request.position, "certificate" if request.position in finished else "destruction", reason
        )
        for request in waiting
    ]


def entry_of(folder: RunFolder, kind: Kind, position: int) -> Entry | None:
    """Return the entry of this kind that belongs to the request; None if it was not written yet."""
    entries = folder.ledger.entries(after=position)
    matching = (entry for entry in entries if entry.kind == kind)
    return next((entry for entry in matching if entry.body["request"] == position), None)


def _sweep(folder: RunFolder) -> None:
    """Remove what a process left that was killed while it wrote a certificate or a key."""
    with suppress(OSError, StoreError):  # nobody depends on it, and the run may be read-only
        Folder(folder.path).sweep(f"{CERTIFICATES}/")
        for path in folder.path.glob(".*.signing*"):
            if finished_path(path) is not None:
                remove_abandoned(path)


def _complete_all(
    folder: RunFolder, live: Live, reader: SourceReader, progress: Progress, found: Recovery
) -> None:
    erased: RowsByFile = {}
    for request in unfinished(folder, live):
        then = live.until(request)
        # Each request lists its own records: the list of an earlier one may be in the ledger already.
        by_then = replace(then, deleted=deleted_after({}, then.requests))
        # Files that an earlier request could not destroy are left to it, and do not hold up this one.
        dead = Dead.at(replace(then, requests=(request,)) if found.undestroyed else then)
        try:
            before, erased = erased, rows_to_erase(folder, by_then, reader)
            rows = without_rows(erased, before)
            _complete(folder, then, dead, rows, reader.unreadable(live), progress)
        # Whatever is wrong with one request, the others must not wait for it.
        except Exception as error:
            found.pending.append(_pending(folder, request, error))
        else:
            found.completed.append(request.position)


def _complete(
    folder: RunFolder,
    then: Live,
    dead: Dead,
    rows: RowsByFile,
    unreadable: Collection[Path],
    progress: Progress,
) -> None:
    """Condemn, destroy and certify for the last request of `then`; a step that was done is not done again."""
    request = then.requests[-1]
    condemned = entry_of(folder, Kind.CONDEMNED, request.position)
    if condemned is None:
        # Listed before the first byte goes: after a kill the certificate must still name all of it.
        artefacts = [asdict(artefact) for artefact in (*doomed(folder, dead), *condemned_rows(rows))]
        condemned = _append(folder, Kind.CONDEMNED, {"request": request.position, "artefacts": artefacts})
    destroyed = entry_of(folder, Kind.DESTROYED, request.position)
    if destroyed is None:
        destroy(folder, dead, progress)
        sources = erase_rows(folder, then.description, request.body["parts"], rows, unreadable)
        body = {"request": request.position, "sources": [outcome.to_json() for outcome in sources]}
        destroyed = _append(folder, Kind.DESTROYED, body)
    certify(folder, request, condemned, destroyed)


def _append(folder: RunFolder, kind: Kind, body: dict[str, Any]) -> Entry:
    with folder.ledger.writing() as writer:
        return writer.append(kind, body)


def _pending(folder: RunFolder, request: Entry, error: Exception) -> PendingWork:
    destroyed = request.position in folder.live().finished
    return PendingWork(request.position, "certificate" if destroyed else "destruction", reason_of(error))


def reason_of(error: Exception) -> str:
    """Return an error in one line; one of the system with the file that it is about."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    known = isinstance(error, InputError | OSError)
    return one_line(error) if known else f"{type(error).__name__}: {one_line(error)}"
