"""From other machines, only the interface of nodes is open."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from starlette.responses import PlainTextResponse

from fedsgt.federation.server.guard import Guard


@pytest.mark.parametrize(
    ("client", "path", "status"),
    [
        ("203.0.113.5", "/v1/fleet/pull-messages", 200),
        ("203.0.113.5", "/v1/control/start-run", 403),
        ("203.0.113.5", "/v1/runtime/acquire-task", 403),
        ("203.0.113.5", "/v1/fleet", 403),
        ("127.0.0.1", "/v1/control/start-run", 200),
        ("198.51.100.1", "/v1/control/start-run", 200),
    ],
)
def test_from_outside_only_the_interface_of_nodes_is_open(client: str, path: str, status: int) -> None:
    transport = httpx.ASGITransport(Guard(PlainTextResponse("in")), client=(client, 40000))

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport) as asking:
            return await asking.get(f"http://198.51.100.1{path}")

    assert asyncio.run(ask()).status_code == status


@pytest.mark.parametrize("client", [None, ("no address", 1), ("", 1)])
def test_a_sender_that_is_not_known_is_from_elsewhere(client: tuple[str, int] | None) -> None:
    """Refuse a caller without an address, such as one behind a Unix socket."""
    transport = httpx.ASGITransport(Guard(PlainTextResponse("in")), client=client)  # type: ignore[arg-type]

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport) as asking:
            return await asking.get("http://198.51.100.1/v1/control/start-run")

    assert asyncio.run(ask()).status_code == 403
