"""Withdrawal of a client's own data: located here, deleted by the server, then left out here too.

The signed requests are on disk before anything is sent. A stop at any moment leaves them there, and sending
one again is harmless: the desk recognises its nonce and answers what it answered first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from fedsgt.data import Client
from fedsgt.errors import InputError
from fedsgt.federation.client.desk_answer import Denied, Granted, Unanswered, ask
from fedsgt.federation.client.records import (
    ENROLMENTS,
    ClientRecords,
    Enrolment,
    Hash,
    RunId,
    StateFile,
    UnreadableSource,
)
from fedsgt.federation.keys import load_private
from fedsgt.federation.settings import ClientSettings
from fedsgt.federation.signed_request import Envelope, sign_record_requests, sign_request
from fedsgt.files.locks import FileLock
from fedsgt.unlearning.request import Deletion
from fedsgt.words import LONGEST_MESSAGE, printable

PENDING, CERTIFICATES, LOCK = "state/pending", "certificates", "state/lock"
LATER = "kept: the same command, or the next start of fedsgt client, sends it again"


class Pending(StateFile):
    """File of a withdrawal that is not finished."""

    petitions: list[Envelope]
    """Signed requests that were not answered yet, under the name that files of earlier versions have."""
    records: list[Hash]
    """Hashes of the withdrawn records, as `ClientRecords` has them."""
    stale: list[Hash]
    run: RunId | None
    """Run that they are withdrawn from; None if from all."""


@dataclass(frozen=True)
class RunShare:
    """Records that a withdrawal deletes from one run."""

    enrolment: Enrolment
    client: Client
    """The client as the run knows it, without its records."""
    slices: Mapping[int, frozenset[str]]
    """Hashes of the registered ids to delete, by slice; the records may have left the file."""

    @property
    def ids(self) -> frozenset[str]:
        """Hashes of all ids to delete."""
        return frozenset().union(*self.slices.values())

    def counts(self) -> dict[int, int]:
        """Return the number of records that each slice loses."""
        return {index: len(there) for index, there in self.slices.items()}


@dataclass(frozen=True)
class Outcome:
    """Outcome of one request."""

    run: str
    state: Literal["accepted", "pending", "nothing-left", "refused", "kept"]
    """`pending`: in force, and the certificate comes later; `kept`: not answered, and sent again later."""
    message: str = ""
    granted: Granted | None = None
    certificate: Path | None = None
    file: str = ""
    """What happened to the client's own file, in words."""


def withdraw(settings: ClientSettings, deletion: Deletion, run: str | None = None) -> list[Outcome]:
    """Withdraw data from one run, or from all that the client took part in; return every outcome."""
    own = ClientRecords(settings)
    with _alone(own):
        # All data is located before anything is sent: a wrong name must not leave half a withdrawal behind.
        shares = locate(own, deletion, run)
        # Earlier withdrawals are sent first, so that the server gets requests in the order they were made in.
        names = _pending(own)
        under_way = [own.read(name, Pending) for name in names]
        told = [outcome for name in names for outcome in _settle(own, name)]
        new = [share for share in shares if _not_yet(share, under_way)]
        if not new:
            return told
        return [*told, *_settle(own, _file(own, deletion, new, under_way, run))]


def send_pending(settings: ClientSettings) -> list[Outcome]:
    """Finish the withdrawals that were interrupted, and return their outcomes."""
    own = ClientRecords(settings)
    with _alone(own):
        return [outcome for name in _pending(own) for outcome in _settle(own, name)]


def locate(own: ClientRecords, deletion: Deletion, run: str | None = None) -> list[RunShare]:
    """Return the records to delete in each run; raise if something is named that does not exist."""
    name = own.settings.name
    enrolments = [entry for entry in own.enrolments() if run in (None, entry.run)]
    if not enrolments:
        where = "any run" if run is None else f"run {run}"
        raise InputError(f"client {name} has not taken part in {where}; there is nothing to withdraw")
    _check_slices(deletion, enrolments)
    remaining = [_remaining(own, entry) for entry in enrolments]
    _check_records(own, deletion, remaining, run)
    shares = [
        RunShare(entry, own.without_records(entry), _chosen(own, deletion, parts))
        for entry, parts in zip(enrolments, remaining, strict=True)
    ]
    found = [share for share in shares if share.slices]
    if not found:
        raise InputError(f"client {name}: there is no record left to withdraw; nothing was sent")
    return found


def _remaining(own: ClientRecords, enrolment: Enrolment) -> list[frozenset[str]]:
    try:
        return own.remaining(enrolment.run)
    # Only an enrolment of an earlier version needs the source: its register is still to be made from it.
    except UnreadableSource as error:
        raise InputError(
            f"run {enrolment.run} has no register yet, and it cannot be made now: {error}; nothing was sent"
        ) from error


def _check_slices(deletion: Deletion, enrolments: Sequence[Enrolment]) -> None:
    sizes = {entry.slices for entry in enrolments}
    if deletion.slices is not None and len(sizes) > 1:
        raise InputError("slices differ from run to run; say which run is meant with --run")
    for index in deletion.slices or ():
        if not 0 <= index < min(sizes):
            raise InputError(f"there is no slice {index}, only 0 to {min(sizes) - 1}; nothing was sent")


def _check_records(
    own: ClientRecords,
    deletion: Deletion,
    remaining: Sequence[Sequence[frozenset[str]]],
    run: str | None,
) -> None:
    """Check that every named record is registered with some run, even if it has left the file since."""
    held = frozenset[str]().union(*(part for parts in remaining for part in parts))
    missing = next((name for name in deletion.records or () if own.hash_of(name) not in held), None)
    if missing is not None:
        before = own.hash_of(missing) in own.withdrawn(run)
        problem = f"{missing!r} was withdrawn before" if before else f"no run has a record {missing!r}"
        raise InputError(f"client {own.settings.name}: {problem}; nothing was sent")


def _chosen(
    own: ClientRecords, deletion: Deletion, remaining: Sequence[frozenset[str]]
) -> dict[int, frozenset[str]]:
    """Return the hashes that the deletion concerns, for each slice that has any."""
    found = dict(enumerate(remaining))
    if deletion.records is not None:
        wanted = frozenset(map(own.hash_of, deletion.records))
        found = {index: part & wanted for index, part in found.items()}
    elif deletion.slices is not None:
        found = {index: found[index] for index in sorted(set(deletion.slices))}
    return {index: part for index, part in found.items() if part}


@contextmanager
def _alone(own: ClientRecords) -> Iterator[None]:
    """Lock the client's state: two processes would send the same request twice."""
    path = own.settings.folder / LOCK
    path.parent.mkdir(exist_ok=True)
    with FileLock(path).held():
        # Safe under the lock: no other process can be writing these files.
        own.files.sweep("state/")
        yield


def under_way(own: ClientRecords, run: str) -> frozenset[str]:
    """Return the hashes of records whose deletion from this run is requested and not confirmed yet."""
    found = [own.read(name, Pending) for name in _pending(own)]
    return frozenset().union(*(pending.records for pending in found if pending.run in (None, run)))


def _pending(own: ClientRecords) -> list[str]:
    return [name for name in own.files.names(f"{PENDING}/") if name.endswith(".json")]


def _not_yet(share: RunShare, under_way: Sequence[Pending]) -> frozenset[str]:
    """Return the hashes of records that no earlier withdrawal has asked this run to delete."""
    asked = [pending.records for pending in under_way if pending.run in (None, share.enrolment.run)]
    return share.ids.difference(*asked)


def _file(
    own: ClientRecords,
    deletion: Deletion,
    shares: Sequence[RunShare],
    under_way: Sequence[Pending],
    run: str | None,
) -> str:
    """Write the signed requests of all runs into one file, so that all of them will be sent or none."""
    key = load_private(own.settings.key)
    envelopes: list[Envelope] = []
    for share in shares:
        if deletion.records is None:
            envelopes.append(sign_request(key, share.enrolment.run, share.client, deletion.slices))
        else:
            new = _not_yet(share, under_way)
            names = [name for name in sorted(set(deletion.records)) if own.hash_of(name) in new]
            envelopes += sign_record_requests(key, share.enrolment.run, share.client, names)
    records = sorted(frozenset[str]().union(*(share.ids for share in shares)))
    stale = own.stale(records, run)
    name = f"{PENDING}/{envelopes[0]['body']['nonce']}.json"
    _keep(own, name, Pending(petitions=envelopes, records=records, stale=stale, run=run))
    return name


def _keep(own: ClientRecords, name: str, pending: Pending) -> None:
    own.files.write(name, pending.model_dump_json(indent=1).encode())


def _settle(own: ClientRecords, name: str) -> Iterator[Outcome]:
    """Send the requests of a file and yield their outcomes; after a stop it goes on with the same request."""
    pending = own.read(name, Pending)
    for envelope in pending.petitions:
        try:
            outcome = _answered(own, envelope)
        except Unanswered as error:
            yield Outcome(envelope["body"]["run"], "kept", f"{error}; {LATER}")
            continue
        # The records are left out here even if the operator has deleted them at the server already: no run
        # may learn from them again.
        if outcome.state != "refused":
            told = own.withdraw(pending.records, pending.stale, pending.run)
            outcome = replace(outcome, file=told)
        if outcome.state == "pending":  # sent again later, for its certificate
            yield outcome
            continue
        left = [other for other in pending.petitions if other != envelope]
        pending = pending.model_copy(update={"petitions": left})
        if left:
            _keep(own, name, pending)
        else:
            own.files.delete(name)
        yield outcome


def _answered(own: ClientRecords, envelope: Envelope) -> Outcome:
    """Return the desk's decision on one request, with its certificate on disk."""
    run = envelope["body"]["run"]
    if run not in {entry.run for entry in own.enrolments()}:
        return Outcome(
            run, "nothing-left", "it is not among the client's runs any more; nothing was asked of it"
        )
    found = ask(own.settings, envelope)
    if isinstance(found, Denied):
        if found.reason == "unknown-run":
            place = own.files.path(f"{ENROLMENTS}/{run}.json")
            raise Unanswered(f"the server has no such run; if it is gone for good, remove {place}")
        state: Literal["nothing-left", "refused"] = (
            "nothing-left" if found.reason == "nothing-left" else "refused"
        )
        return Outcome(run, state, f"{found.message} ({found.reason})")
    if found.certificate is None:
        return Outcome(run, "pending", f"{printable(found.pending, LONGEST_MESSAGE)}; {LATER}", granted=found)
    name = f"{CERTIFICATES}/{run}-{found.position}.json"
    text = json.dumps(found.certificate, indent=1, ensure_ascii=False) + "\n"
    # The certificate is on disk before the request is forgotten, so that a stop in between loses none.
    own.files.write(name, text.encode())
    return Outcome(run, "accepted", granted=found, certificate=own.files.path(name))
