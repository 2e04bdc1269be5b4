"""A deletion, from the request to its certificate.

The request is in the ledger before it is answered, and from then on no module that it hit is served or
trained. Then everything that depends on its records is destroyed. The ledger notes what is condemned before
that, and that it is destroyed afterwards. A process that is killed at any moment leaves the request either
unknown or for `recover` to complete.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fedsgt.certificates.certify import certificate_path, certify
from fedsgt.errors import InputError
from fedsgt.ledger.kinds import RECORDS_MOVED, Kind
from fedsgt.ledger.ledger import Entry
from fedsgt.runs.artefacts import CERTIFICATES
from fedsgt.runs.dependencies import Dead
from fedsgt.runs.destruction import check_links, destroy, doomed
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.state import Live, deleted_after
from fedsgt.store import Folder
from fedsgt.unlearning.erase import (
    RowsByFile,
    SourceReader,
    condemned_rows,
    erase_rows,
    rows_to_erase,
    without_rows,
)
from fedsgt.unlearning.request import Deletion, DeletionPart, content_hash, groups_hit, locate

Progress = Callable[[float], None]
Locate = Callable[[Live], list[DeletionPart]]


class KeyUsed(InputError):
    """Error for an idempotency key that came with another request before."""


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
    destroyed: int = 0
    """Number of trained modules that were destroyed."""
    certificate: Path | None = None
    """Path of the certificate; None until the request is completed."""
    unreadable: tuple[Path, ...] = ()
    """Files that deleted records were in and that could not be read, so that the records are still there."""

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
) -> Receipt:
    """Accept the request, destroy what depends on its records, and write its certificate."""
    reader = SourceReader(folder)
    return complete(folder, accept(folder, deletions, key, reader), progress, reader)


def complete(
    folder: RunFolder,
    receipt: Receipt,
    progress: Progress = lambda share: None,
    reader: SourceReader | None = None,
) -> Receipt:
    """Destroy what depends on the records of an accepted request, write its certificate, and say so."""
    reader = reader or SourceReader(folder)
    recover(folder, progress, reader)
    return replace(
        receipt,
        destroyed=_destroyed(folder, receipt.position),
        certificate=certificate_path(folder, receipt.position),
        unreadable=tuple(reader.unreadable(folder.live())),
    )


def accept(
    folder: RunFolder,
    deletions: Sequence[Deletion],
    key: str | None = None,
    reader: SourceReader | None = None,
) -> Receipt:
    """Put the request into the ledger; once this returns, it is on disk and in force everywhere.

    `reader` keeps the clients' records that were read to find the slices, for the steps that follow.
    """
    if key is not None and not key.strip():
        raise InputError("the idempotency key is empty; give a text that names this request")
    content = content_hash(folder, deletions)
    reader = reader or SourceReader(folder)
    return accept_parts(folder, lambda live: locate(folder, live, deletions, reader), content, key)


def accept_parts(folder: RunFolder, find: Locate, content: str, key: str | None = None) -> Receipt:
    """Put the parts that `find` returns into the ledger as one request.

    `content` tells the request from others that come with the same key.
    """
    # The parts are found without the ledger's lock, which reading records would hold for long. So everything
    # is done once more if the run changed between finding the parts and writing them.
    while True:
        if key is not None and (known := folder.ledger.find(key)) is not None:
            return _first_receipt(known, content, key)
        check_links(folder)
        live = folder.live()
        try:
            body = _body(live, find(live)) | {"content": content if key is not None else None}
        except InputError:
            if key is not None and folder.ledger.find(key) is not None:
                continue  # the same request came in twice at once, and the other was faster
            raise
        with folder.ledger.writing() as writer:
            newer = writer.entries(after=live.position)
            # If records moved meanwhile, the parts may name the wrong slices and are looked for again.
            if not any(entry.kind in RECORDS_MOVED for entry in newer):
                return Receipt.of(writer.append(Kind.REQUEST, body, key))


def preview(folder: RunFolder, deletions: Sequence[Deletion]) -> tuple[Live, Live, dict[str, Any]]:
    """Return the state now, the state after this request, and its ledger entry; change nothing."""
    check_links(folder)
    live = folder.live()
    body = _body(live, locate(folder, live, deletions, SourceReader(folder)))
    return live, live.after([Entry(live.position + 1, Kind.REQUEST, "", body, "", "")]), body


def recover(
    folder: RunFolder, progress: Progress = lambda share: None, reader: SourceReader | None = None
) -> list[int]:
    """Complete every request that was accepted and not completed; return the positions of those."""
    if not unfinished(folder):
        # A process may have been killed between giving a certificate its name and removing the unfinished
        # file.
        Folder(folder.path).sweep(f"{CERTIFICATES}/")
        return []
    reader = reader or SourceReader(folder)
    with reader.publishing() as live:
        pending = unfinished(folder, live)
        erased: RowsByFile = {}
        for request in pending:
            then = live.until(request)
            # Each request lists its own records: the list of an earlier one may be in the ledger already.
            by_then = replace(then, deleted=deleted_after({}, then.requests))
            rows = rows_to_erase(folder, by_then, reader)
            _complete(folder, then, request, without_rows(rows, erased), progress)
            erased = rows
    return [request.position for request in pending]


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


def _body(live: Live, parts: Sequence[DeletionPart]) -> dict[str, Any]:
    groups = groups_hit(live.description, parts)
    died = len(live.dying(groups))
    return {"parts": [part.to_json() for part in parts], "groups": groups, "modules_died": died}


def _first_receipt(known: Entry, content: str, key: str) -> Receipt:
    if known.body.get("content") != content:
        raise KeyUsed(
            f"the key {key!r} came with another request before (no. {known.position}); "
            "a new request needs a key of its own"
        )
    return Receipt.of(known, repeated=True)


def _complete(folder: RunFolder, then: Live, request: Entry, rows: RowsByFile, progress: Progress) -> None:
    """Condemn, destroy and certify; a step that was done before changes nothing."""
    assert then.requests[-1] == request
    dead = Dead.at(then)
    condemned = _entry_of(folder, Kind.CONDEMNED, request.position)
    if condemned is None:
        # Listed before the first byte goes: after a kill the certificate must still name all of it.
        artefacts = [asdict(artefact) for artefact in (*doomed(folder, dead), *condemned_rows(rows))]
        condemned = _append(folder, Kind.CONDEMNED, {"request": request.position, "artefacts": artefacts})
    destroy(folder, dead, progress)
    erase_rows(folder, then.description, request.body["parts"], rows)
    destroyed = _entry_of(folder, Kind.DESTROYED, request.position)
    if destroyed is None:
        destroyed = _append(folder, Kind.DESTROYED, {"request": request.position})
    certify(folder, folder.live(), request, condemned, destroyed)


def _destroyed(folder: RunFolder, position: int) -> int:
    condemned = _entry_of(folder, Kind.CONDEMNED, position)
    return sum(artefact["kind"] == "module" for artefact in condemned.body["artefacts"]) if condemned else 0


def _entry_of(folder: RunFolder, kind: Kind, position: int) -> Entry | None:
    """Return the entry of this kind that belongs to the request; None if it was not written yet."""
    entries = folder.ledger.entries(after=position)
    matching = (entry for entry in entries if entry.kind == kind)
    return next((entry for entry in matching if entry.body["request"] == position), None)


def _append(folder: RunFolder, kind: Kind, body: dict[str, Any]) -> Entry:
    with folder.ledger.writing() as writer:
        return writer.append(kind, body)
