"""Flower's SuperLink behind a guard that lets only nodes in from other machines.

The SuperLink's one port serves nodes, which are asked for their key, and also commands and running apps,
which are not: anybody who reached it could register a key, or run code on the server. The guard lets requests
for those two through from the server's own machine only.
"""

from __future__ import annotations

import ipaddress

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from fedsgt.engine.flower.internals import run_superlink

# Paths that other machines may ask for: the nodes' interface, which checks keys, and the sign of life.
FOR_ALL = ("/v1/fleet/", "/health")


class Guard:
    """Middleware that refuses requests from other machines, except those to the nodes' interface."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["path"].startswith(FOR_ALL) or _from_here(scope):
            await self.app(scope, receive, send)
        else:
            refusal = PlainTextResponse("this interface is open on the server's own machine only", 403)
            await refusal(scope, receive, send)


def _from_here(scope: Scope) -> bool:
    """Whether a request comes from this machine: from loopback, or from the address that it is sent to."""
    client, server = scope.get("client"), scope.get("server")
    # An address that is not known counts as foreign: refusing is the safe answer.
    if not client or not server:
        return False
    try:
        return client[0] == server[0] or ipaddress.ip_address(client[0]).is_loopback
    except ValueError:
        return False


if __name__ == "__main__":
    run_superlink(Guard)
