"""The desk: decides on clients' requests to delete their own data, and carries them out.

An answer means that the request is in the ledger and in force, and that everything which depends on the data
is destroyed, unless the answer says that this is pending; the same request sent again then completes it. A
request for data that is not the client's own, or one that was made before, is refused, and the refusal is
logged. Nothing here imports torch: a deletion needs none.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedsgt.errors import InputError
from fedsgt.federation.settings import ServerSettings
from fedsgt.federation.signed_request import RequestRefused, check_request, read_request
from fedsgt.files.encoding import parse_json
from fedsgt.runs.artefacts import DESCRIPTION
from fedsgt.runs.description import Description
from fedsgt.runs.description_files import read_description
from fedsgt.runs.folder import RunFolder, find_runs, open_run
from fedsgt.unlearning.recovery import recover
from fedsgt.unlearning.unlearn import KeyUsed, Receipt, accept_parts, complete

REFUSED = "refused.jsonl"
PENDING = "the deletion is in force; the server will complete it and sign its certificate later"
MAX_LOG_BYTES = 10 * 2**20  # anybody can send requests that are refused, and must not fill the disk
log = logging.getLogger("fedsgt.desk")


class Replayed(RequestRefused):
    """Refusal of a request that was made before, with the first answer if it is the very same text."""

    def __init__(self, first: dict[str, Any] | None) -> None:
        super().__init__("replayed", "this request was made before; nothing new was done")
        self.first = first


class Desk:
    """Decides on requests for the runs of one folder."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.refusals = RefusalLog(settings.folder / REFUSED)
        self.known: dict[Path, tuple[tuple[int, int], str]] = {}

    def answer(self, data: bytes) -> dict[str, Any]:
        """Carry out a request, and return its result once nothing can undo it."""
        try:
            return self._carry_out(_parsed(data))
        except RequestRefused as refused:
            self.refusals.note(refused.reason, data)
            raise

    def _carry_out(self, envelope: object) -> dict[str, Any]:
        # The run is looked up before the signature is checked, because its description has the client's key.
        body, _ = read_request(envelope)
        folder = self._run(body.run)
        request = check_request(envelope, folder.live())
        try:
            found = accept_parts(folder, request.parts, request.content, request.key)
        except KeyUsed:
            raise Replayed(None) from None
        # A repeated request is completed too: the server may have been stopped between the two steps.
        told = _told(folder, complete(folder, found))
        if found.repeated:
            raise Replayed(told)
        return told

    def _run(self, wanted: str) -> RunFolder:
        for path in find_runs(self.settings.runs):
            if self._id(path) == wanted:
                return open_run(path)
        raise RequestRefused("unknown-run", f"the server has no run {wanted}")

    def _id(self, path: Path) -> str:
        """Return a run's id, read once for each version of its description."""
        # Anybody may ask for runs that do not exist: that must not cost a reading of all descriptions.
        try:
            found = (path / DESCRIPTION).stat()
        except OSError:  # the run is being removed at this moment
            return ""
        stamp = found.st_ino, found.st_mtime_ns
        if path not in self.known or self.known[path][0] != stamp:
            self.known[path] = stamp, self._read_id(path)
        return self.known[path][1]

    def _read_id(self, path: Path) -> str:
        try:
            return read_description(path).id
        except InputError as error:
            log.warning("left out: %s", error)
            return ""

    def finish_interrupted(self) -> None:
        """Complete the requests that were accepted before the server went down."""
        for path in find_runs(self.settings.runs):
            try:
                if _has_remote_clients(read_description(path)):
                    found = recover(open_run(path))
                    for line in (*(work.words() for work in found.pending), *found.key_changes()):
                        log.warning("%s: %s", path, line)
            # One damaged run must not keep the desk from answering for all others.
            except InputError as error:
                log.warning("%s", error)


class RefusalLog:
    """File of refused requests: when, why and whom they claimed to be from; its size is limited."""

    def __init__(self, path: Path, limit: int = MAX_LOG_BYTES) -> None:
        self.path, self.limit = path, limit
        # Requests are answered in several threads, and a file must not be renamed while another writes.
        self.lock = threading.Lock()

    def note(self, reason: str, data: bytes) -> None:
        """Write a line without signature and record hashes; the digest identifies the text of the request."""
        claimed = {name: _claimed(data, name) for name in ("client", "run")}
        time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"time": time, "reason": reason, **claimed, "sha256": hashlib.sha256(data).hexdigest()}
        with self.lock:
            try:
                if self.path.exists() and self.path.stat().st_size > self.limit:
                    self.path.replace(self.path.with_suffix(".1.jsonl"))
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
            except OSError as error:  # the request is refused even if the refusal cannot be noted
                log.error("%s: cannot be written (%s)", self.path, error.strerror)


def _parsed(data: bytes) -> object:
    try:
        return parse_json(data, "the request")
    except InputError as error:
        raise RequestRefused("malformed", str(error)) from None


def _claimed(data: bytes, name: str) -> str | None:
    """Return a field of a request's body, unchecked; None if it cannot be read."""
    try:
        value = parse_json(data, "")["body"][name]
    except (InputError, KeyError, TypeError):
        return None
    return value[:100] if isinstance(value, str) else None


def _told(folder: RunFolder, answer: Receipt) -> dict[str, Any]:
    """Return the answer for the client, who learns that the deletion is in force even if work is pending."""
    pending, certificate = answer.pending, None
    if answer.certificate is not None:
        try:
            certificate = json.loads(answer.certificate.read_bytes())
        except (OSError, ValueError) as error:
            pending = f"its certificate cannot be read: {error}"
    # The reason is about the server's own files, which are not for the client to know.
    for line in (*answer.key_changes, *([] if pending is None else [pending])):
        log.warning("%s, request no. %d: %s", folder.path, answer.position, line)
    return {
        "position": answer.position,
        "time": answer.time,
        "records": answer.records,
        "groups": answer.groups,
        "modules_died": answer.modules_died,
        "in_force": answer.in_force,
        "pending": None if pending is None else PENDING,
        "certificate": certificate,
    }


def _has_remote_clients(description: Description) -> bool:
    return any(client.node is not None for client in description.clients)
