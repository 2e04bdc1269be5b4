"""The desk over HTTPS: takes requests from clients and turns decisions and errors into answers."""

from __future__ import annotations

import logging
import socket
import sys
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from fedsgt.errors import InputError
from fedsgt.federation.server.desk import Desk, Replayed
from fedsgt.federation.settings import ServerSettings, load_server
from fedsgt.federation.signed_request import Reason, RequestRefused
from fedsgt.unlearning.unlearn import OutcomeUnknown

MAX_BYTES = 2**20  # bytes of one request
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


async def limited(request: Request) -> bytes:
    """Read a request's bytes, up to the limit: a request may have no end."""
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > MAX_BYTES:
            # Noted here, as the desk never sees the request.
            request.app.state.desk.refusals.note("too-large", data)
            raise RequestRefused("too-large", f"a request has at most {MAX_BYTES} bytes")
    return data


def make_app(desk: Desk) -> FastAPI:
    """Return the web application of a desk."""
    app = FastAPI(title="FedSGT desk", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.desk = desk

    # Not async, so that a slow deletion runs in a thread of its own and holds up no other request.
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
        # The error is about the server's own files, which are not for the client to know.
        log.error("%s", error)
        if isinstance(error, OutcomeUnknown):
            return _problem(500, "server", "it is not known whether the deletion is in force; ask again")
        # Nothing that comes after acceptance raises such an error.
        return _problem(500, "server", "the deletion is not in force: the server could not do it; ask again")

    @app.exception_handler(HTTPException)
    def elsewhere(_: Request, error: HTTPException) -> JSONResponse:
        return _problem(error.status_code, "not-here", "requests go to POST /v1/requests")

    @app.exception_handler(Exception)
    def failed(_: Request, error: Exception) -> JSONResponse:
        return _problem(500, "server", "it is not known whether the deletion is in force; ask again")

    return app


def serve(settings: ServerSettings) -> None:
    """Answer requests until the process is told to stop."""
    # The port is taken before the interrupted requests are finished: clients that come meanwhile wait.
    listening = _listen(settings.host, settings.desk_port)
    desk = Desk(settings)
    desk.finish_interrupted()
    config = uvicorn.Config(
        make_app(desk),
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.key,
        log_level="error",  # anybody can send bytes that are no HTTP, and a line for each would fill the disk
        access_log=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=30,  # seconds in which deletions under way may be finished
    )
    try:
        config.load()
    except OSError as error:  # errors of ssl are among these
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


def _problem(status: int, code: str, message: str, more: dict[str, Any] | None = None) -> JSONResponse:
    return JSONResponse({"error": code, "message": message, **(more or {})}, status_code=status)


def main() -> None:
    """Run `python -m fedsgt.federation.server.desk_service FOLDER`, which `fedsgt server` starts."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    try:
        serve(load_server(Path(sys.argv[1])))
    except InputError as error:
        print(f"fedsgt: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:  # uvicorn raises the signal again once it has shut down
        sys.exit(130)


if __name__ == "__main__":
    main()
