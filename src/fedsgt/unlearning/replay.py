"""Replay of deletions: certificates that others hold are applied to a run that came back from a backup."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fedsgt.certificates.content import Certificate, DeletedPart
from fedsgt.certificates.keys import PublicKey, public_keys
from fedsgt.certificates.signatures import BadSignature, read_certificate
from fedsgt.data import client_hash, derive_salt
from fedsgt.errors import InputError
from fedsgt.files.durable import sync_folder
from fedsgt.ledger.kinds import Kind
from fedsgt.ledger.ledger import Entry
from fedsgt.ledger.marks import SHORT, Mark
from fedsgt.runs.artefacts import CERTIFICATES, PUBLIC_KEY
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.records_left import records_left
from fedsgt.runs.state import DeletedData, Live
from fedsgt.unlearning.request import DeletionPart, groups_hit
from fedsgt.unlearning.unlearn import Receipt, accept_parts, complete


@dataclass(frozen=True)
class Replayed:
    """Result of a replay."""

    receipts: dict[int, Receipt]
    """Answer to each certificate that was applied, by its request's position in the lost ledger."""
    known: list[int]
    """Positions of the requests that the ledger has already, or that concern nothing in this run."""
    missing: list[int]
    """Positions of requests that the mark knows of and for which no certificate was given."""


def replay(
    folder: RunFolder, files: Sequence[Path], key: Path | None = None, accept_missing: bool = False
) -> Replayed:
    """Apply the deletions of these certificates, and of lost ones in the run's folder, to a restored run.

    The run must have been opened for restoring. All is checked before anything is changed. Replaying twice
    changes nothing the second time.
    """
    with folder.locked():
        lost = _lost_certificates(folder)
        found = _read_certificates(folder, [*files, *lost], key)
        mark = folder.ledger.high_water.mark()
        missing = _missing(folder, mark, found)
        if missing and not accept_missing:
            named = ", ".join(map(str, missing))
            raise InputError(
                f"{folder.path}: requests no. {named} were accepted before, and no certificate of them was "
                "given; give those too, or go on without them with --accept-missing; nothing was changed"
            )
        todo = _to_apply(folder, found)
        _set_aside(lost)
        receipts = {certificate.request.position: _apply(folder, certificate) for certificate in todo}
        _note(folder, mark, receipts, missing)
    known = sorted({certificate.request.position for certificate in found} - receipts.keys())
    return Replayed(receipts, known, missing)


def _lost_certificates(folder: RunFolder) -> list[Path]:
    """List the certificates in the run's folder that the ledger knows nothing of: it alone was restored."""
    known = {entry.position: entry.hash for entry in folder.live().requests}
    lost = []
    for path in sorted((folder.path / CERTIFICATES).glob("[0-9]*.json")):
        request = read_certificate(path, key=None).request  # its signature is checked with all others
        if known.get(request.position) != request.ledger_hash:
            lost.append(path)
    return lost


def _read_certificates(folder: RunFolder, files: Sequence[Path], key: Path | None) -> list[Certificate]:
    """Return the certificates in the order of their requests, each once."""
    if not files:
        return []
    if key is None and not (folder.path / PUBLIC_KEY).is_file():
        raise InputError(
            f"{folder.path}: the run has no {PUBLIC_KEY} yet; give the key that signed the certificates "
            "with --key; nothing was changed"
        )
    keys = public_keys(folder) if key is None else [PublicKey.read(key)]
    read = (_read_signed(folder, path, keys) for path in files)
    found = {certificate.request.ledger_hash: certificate for certificate in read}
    return sorted(found.values(), key=lambda certificate: certificate.request.position)


def _read_signed(folder: RunFolder, path: Path, keys: Sequence[PublicKey]) -> Certificate:
    refused: list[BadSignature] = []
    for key in keys:
        try:
            certificate = read_certificate(path, key)
        except BadSignature as error:
            refused.append(error)
            continue
        if certificate.run != folder.description.id:
            raise InputError(f"{path}: a certificate of another run ({certificate.run}); nothing was changed")
        return certificate
    raise InputError(f"{refused[0]}; nothing was changed")


def _missing(folder: RunFolder, mark: Mark | None, found: Sequence[Certificate]) -> list[int]:
    """Return the requests that the mark knows of, and neither the ledger nor a certificate has."""
    if mark is None:
        return []
    given = {(each.request.position, each.request.ledger_hash[:SHORT]) for each in found}
    lacking = folder.ledger.high_water.lacking(mark)
    return [position for position in lacking if (position, mark.requests[position]) not in given]


def _to_apply(folder: RunFolder, found: Sequence[Certificate]) -> list[Certificate]:
    """Return the certificates whose deletion is not in the ledger; raise if one of them cannot be applied."""
    live = folder.live()
    known = {entry.position: entry.hash for entry in live.requests}
    todo = []
    for certificate in found:
        request = certificate.request
        if known.get(request.position) == request.ledger_hash:
            continue
        # A replay that was killed has these in the ledger; they are accepted again, and completed.
        if folder.ledger.find(_key(certificate)) is None:
            parts = _parts(folder, certificate, live)
            if not parts:
                continue
            body = {
                "parts": [part.to_json() for part in parts],
                "groups": groups_hit(live.description, parts),
            }
            live = live.after([Entry(live.position + 1, Kind.REQUEST, "", body, "", "")])
        todo.append(certificate)
    return todo


def _key(certificate: Certificate) -> str:
    request = certificate.request
    return f"replay of {certificate.run}/{request.position}/{request.ledger_hash}"


def _apply(folder: RunFolder, certificate: Certificate) -> Receipt:
    find = partial(_parts, folder, certificate)
    content = certificate.request.ledger_hash
    return complete(folder, accept_parts(folder, find, content, _key(certificate)))


def _parts(folder: RunFolder, certificate: Certificate, live: Live) -> list[DeletionPart]:
    """Return the parts of the request as far as this run has such data; none if it has none."""
    parts: list[DeletionPart] = []
    for part in certificate.request.parts:
        number = _number_of(folder, live, certificate, part.client)
        if number is not None and (found := _part(live, number, part, certificate)):
            parts.append(found)
    return parts


def _number_of(folder: RunFolder, live: Live, certificate: Certificate, client: str) -> int | None:
    """Return the number of the client whose name has this hash; None if the run does not have it."""
    for number, entry in enumerate(live.description.clients):
        if client_hash(derive_salt(folder.config.data.seed, entry.name), entry.name) == client:
            return number
    # Clients on machines of their own have salts that nobody else knows; an earlier request may name one.
    for request in live.requests:
        for part in request.body["parts"]:
            if part["client"] == client:
                return int(part["number"])
    if folder.config.data.partition != "remote":
        return None  # it joined after the backup, so that nothing of it is here
    raise InputError(
        f"request no. {certificate.request.position}: its client is known by a hash under a salt of its own, "
        "so it cannot be told here; the client has to withdraw again; nothing was changed"
    )


def _part(live: Live, number: int, part: DeletedPart, certificate: Certificate) -> DeletionPart | None:
    left = records_left(live, number)
    if max(part.slices) >= len(left):
        raise InputError(
            f"request no. {certificate.request.position}: client {live.description.clients[number].name} has "
            f"no slice {max(part.slices)} in this run; nothing was changed"
        )
    gone = live.deleted.get(number, DeletedData())
    slices = tuple(index for index in part.slices if index not in gone.slices)
    if not slices or (part.scope == "records" and gone.records.issuperset(part.records)):
        return None
    if part.scope == "records":
        counts = _spread(len(part.records), [left[index] for index in slices])
    else:
        counts = tuple(left[index] for index in slices)
    return DeletionPart(number, part.client, part.scope, slices, counts, tuple(part.records))


def _spread(count: int, left: Sequence[int]) -> tuple[int, ...]:
    """Return a number of records for each slice, with this sum.

    A certificate does not say how many records were in which slice. Each loses one at least, so that its
    group is hit, and the fullest lose the others.
    """
    counts = [1] * len(left)
    for _ in range(count - len(left)):
        fullest = max(range(len(left)), key=lambda index: left[index] - counts[index])
        counts[fullest] += 1
    return tuple(counts)


def _set_aside(lost: Iterable[Path]) -> None:
    """Rename certificates whose numbers the ledger gives to other requests from now on."""
    for path in lost:
        if path.stem.isdecimal():
            code = read_certificate(path, key=None).request.ledger_hash
            os.replace(path, path.with_name(f"{path.stem}-{code[:SHORT]}.json"))
            sync_folder(path.parent)


def _note(folder: RunFolder, mark: Mark | None, receipts: dict[int, Receipt], missing: list[int]) -> None:
    """Write to the ledger that the run was restored, if it was, and set its mark anew."""
    high = folder.ledger.high_water
    lost = mark is not None and not high.continues(mark)
    body: dict[str, Any] = {
        "mark": {"position": mark.position, "hash": mark.hash} if mark else None,
        "replayed": sorted(receipts),
        "missing": missing,
    }
    with folder.ledger.writing() as writer:
        # A replay may have been killed after the entry and before the mark.
        noted = any(e.kind == Kind.RESTORED and e.body == body for e in writer.entries())
        if not noted and (lost or not all(receipt.repeated for receipt in receipts.values())):
            writer.append(Kind.RESTORED, body)
    if lost:
        high.reset()
    else:
        high.rise()
