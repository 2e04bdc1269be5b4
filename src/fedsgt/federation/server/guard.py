"""Flower's SuperLink with a guard at its door: from outside, only nodes with their keys come in.

Its one port serves nodes, who are asked for their key, and also commands and running apps, who are not:
whoever reached it could register a key of his own, or run code on the server. Those two stay on its machine.
"""

from __future__ import annotations

import ipaddress

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from fedsgt.engine.flower.internals import run_superlink

FOR_ALL = ("/v1/fleet/", "/health")


class Guard:
    """Lets requests for anything but the nodes' interface through from this machine only."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["path"].startswith(FOR_ALL) or _from_here(scope):
            await self.app(scope, receive, send)
        else:
            refusal = PlainTextResponse("this interface is open on the server's own machine only", 403)
            await refusal(scope, receive, send)


def _from_here(scope: Scope) -> bool:
    """A machine that speaks to itself does so from the address that it speaks to."""
    client, server = scope.get("client"), scope.get("server")
    if not client or not server:
        return False
    try:
        return client[0] == server[0] or ipaddress.ip_address(client[0]).is_loopback
    except ValueError:
        return False


if __name__ == "__main__":
    run_superlink(Guard)
