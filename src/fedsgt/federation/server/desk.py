"""The desk: where clients file deletions of their own data, over HTTPS.

An answer means that the request is in the ledger and what it hit is destroyed. Who asks for what is not its
own, or asks twice, is refused, and that is written down. Nothing here loads torch: a deletion needs none.
"""

from __future__ import annotations

import hashlib
import json
import logging
import socket
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from fedsgt.errors import InputError
from fedsgt.federation.settings import ServerSettings, load_server
from fedsgt.federation.signed_request import Reason, RequestRefused, check_request, read_request
from fedsgt.files.encoding import parse_json
from fedsgt.runs.artefacts import DESCRIPTION
from fedsgt.runs.description import Description
from fedsgt.runs.folder import RunFolder, find_runs, open_run, read_description
from fedsgt.unlearning.unlearn import KeyUsed, Receipt, accept_parts, complete, recover

MAX_BYTES = 2**20
REFUSED = "refused.jsonl"
MAX_LOG_BYTES = 10 * 2**20
# Connections at once; more are turned away before anything of theirs is read.
MAX_CONNECTIONS = 200
STATUS: dict[Reason, int] = {
    "malformed": 400,
    "too-large": 413,
    "unknown-run": 404,
    "unknown-client": 404,
    "not-remote": 403,
    "forged": 403,
    "replayed": 409,
}
log = logging.getLogger("fedsgt.desk")


class Replayed(RequestRefused):
    """The request was answered before; who sends the very same text again is told that answer."""

    def __init__(self, first: dict[str, Any] | None) -> None:
        super().__init__("replayed", "this request was made before; nothing new was done")
        self.first = first


class Desk:
    """Decides on requests, for the runs of one folder."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.refusals = RefusalLog(settings.folder / REFUSED)
        self.known: dict[Path, tuple[tuple[int, int], str]] = {}

    def answer(self, data: bytes) -> dict[str, Any]:
        """What a request did, once it is done for good."""
        try:
            return self._carry_out(_parsed(data))
        except RequestRefused as refused:
            self.refusals.note(refused.reason, data)
            raise

    def _carry_out(self, envelope: object) -> dict[str, Any]:
        body, _ = read_request(envelope)
        folder = self._run(body.run)
        request = check_request(envelope, folder.live())
        try:
            found = accept_parts(folder, request.parts, request.content, request.key)
        except KeyUsed:
            raise Replayed(None) from None
        told = _told(complete(folder, found))
        if found.repeated:
            raise Replayed(told)
        return told

    def _run(self, wanted: str) -> RunFolder:
        for path in find_runs(self.settings.runs):
            if self._id(path) == wanted:
                return open_run(path)
        raise RequestRefused("unknown-run", f"the server has no run {wanted}")

    def _id(self, path: Path) -> str:
        """Read once for each version of the description: anybody may ask for runs that do not exist."""
        try:
            found = (path / DESCRIPTION).stat()
        except OSError:  # removed at this moment
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
        """Complete what was accepted before the server went down."""
        for path in find_runs(self.settings.runs):
            try:
                if _has_remote_clients(read_description(path)):
                    recover(open_run(path))
            except InputError as error:
                log.warning("%s", error)


class RefusalLog:
    """What was refused, when, and who it claimed to be from: a file that cannot grow without end."""

    def __init__(self, path: Path, limit: int = MAX_LOG_BYTES) -> None:
        self.path, self.limit = path, limit
        self.lock = threading.Lock()

    def note(self, reason: str, data: bytes) -> None:
        """No signature and no hashes of records; the digest tells whoever has the text that it is the one."""
        claimed = {name: _claimed(data, name) for name in ("client", "run")}
        time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"time": time, "reason": reason, **claimed, "sha256": hashlib.sha256(data).hexdigest()}
        with self.lock:
            try:
                if self.path.exists() and self.path.stat().st_size > self.limit:
                    self.path.replace(self.path.with_suffix(".1.jsonl"))
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
            except OSError as error:  # refused all the same
                log.error("%s: cannot be written (%s)", self.path, error.strerror)


async def limited(request: Request) -> bytes:
    """The request's bytes; one that never ends is not read to its end."""
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > MAX_BYTES:
            request.app.state.desk.refusals.note("too-large", data)
            raise RequestRefused("too-large", f"a request has at most {MAX_BYTES} bytes")
    return data


def make_app(desk: Desk) -> FastAPI:
    """The desk's two addresses."""
    app = FastAPI(title="FedSGT desk", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.desk = desk

    # Not async: what is slow runs in a thread of its own.
    @app.post("/v1/requests")
    def file_request(data: Annotated[bytes, Depends(limited)]) -> JSONResponse:
        return JSONResponse(desk.answer(data))

    @app.get("/v1/health")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.exception_handler(RequestRefused)
    def refused(_: Request, error: RequestRefused) -> JSONResponse:
        first = {"first": error.first} if isinstance(error, Replayed) and error.first else {}
        return _problem(STATUS.get(error.reason, 422), error.reason, str(error), first)

    @app.exception_handler(InputError)
    def unable(_: Request, error: InputError) -> JSONResponse:
        log.error("%s", error)  # of the server's own files: not for the client to read
        return _problem(500, "server", "the server could not carry this out; ask again later")

    @app.exception_handler(HTTPException)
    def elsewhere(_: Request, error: HTTPException) -> JSONResponse:
        return _problem(error.status_code, "not-here", "requests go to POST /v1/requests")

    @app.exception_handler(Exception)
    def failed(_: Request, error: Exception) -> JSONResponse:
        return _problem(500, "server", "the server could not carry this out; ask again later")

    return app


def serve(settings: ServerSettings) -> None:
    """Answer requests until the process is told to stop."""
    listening = _listen(settings.host, settings.desk_port)
    desk = Desk(settings)
    desk.finish_interrupted()
    config = uvicorn.Config(
        make_app(desk),
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.key,
        log_level="error",  # anybody can send what is no HTTP: a line for each would fill the disk
        access_log=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=30,
    )
    try:
        config.load()
    except OSError as error:  # ssl's errors among them
        raise InputError(
            f"{settings.certificate}, {settings.key}: the desk cannot use them ({error.strerror or error})"
        ) from None
    with listening:
        uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise InputError(
            f"desk: cannot listen on {host}:{port} ({error.strerror or error}); change host or desk_port"
        ) from None


def _parsed(data: bytes) -> object:
    try:
        return parse_json(data, "the request")
    except InputError as error:
        raise RequestRefused("malformed", str(error)) from None


def _claimed(data: bytes, name: str) -> str | None:
    """What the text says, whoever wrote it."""
    try:
        value = parse_json(data, "")["body"][name]
    except (InputError, KeyError, TypeError):
        return None
    return value[:100] if isinstance(value, str) else None


def _told(answer: Receipt) -> dict[str, Any]:
    assert answer.certificate is not None
    return {
        "position": answer.position,
        "time": answer.time,
        "records": answer.records,
        "groups": answer.groups,
        "modules_died": answer.modules_died,
        "certificate": json.loads(answer.certificate.read_bytes()),
    }


def _problem(status: int, code: str, message: str, more: dict[str, Any] | None = None) -> JSONResponse:
    return JSONResponse({"error": code, "message": message, **(more or {})}, status_code=status)


def _has_remote_clients(description: Description) -> bool:
    return any(client.node is not None for client in description.clients)


def main() -> None:
    """`python -m fedsgt.federation.server.desk FOLDER`, as `fedsgt server` starts it."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    try:
        serve(load_server(Path(sys.argv[1])))
    except InputError as error:
        print(f"fedsgt: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:  # uvicorn has shut down, and passes it on
        sys.exit(130)


if __name__ == "__main__":
    main()
