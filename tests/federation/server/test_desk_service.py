"""The desk over HTTPS: limits, addresses, TLS and a port that is taken."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import httpx
import pytest
from remote_world import desk_connection

from fedsgt.federation.server.desk_service import MAX_BYTES

if TYPE_CHECKING:
    from tests.federation.server.conftest import Scene


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"", 400),
        (b"\xff\xfe", 400),
        (b'{"body": {}, "body": {}}', 400),
        (b"[" * 100_000, 400),
        (b'{"body": 1e5}', 400),
        (b" " * (MAX_BYTES + 1), 413),
        (b" " * (20 * MAX_BYTES), 413),
    ],
)
def test_bytes_that_are_no_request(scene: Scene, data: bytes, status: int) -> None:
    head, before = scene.head(), len(scene.refusals())
    response = scene.send_bytes(data)
    assert response.status_code == status
    assert response.json()["error"] == ("malformed" if status == 400 else "too-large")
    assert "\n" not in response.json()["message"]
    assert len(scene.refusals()) == before + 1
    assert scene.head() == head


def test_other_addresses_have_the_same_shape_of_error(scene: Scene) -> None:
    with desk_connection(scene.federation.server) as client:
        for response in (client.get("/v1/requests"), client.get("/docs"), client.post("/v1/health")):
            assert response.status_code in (404, 405)
            assert response.json().keys() == {"error", "message"}


def test_nobody_talks_to_it_in_the_clear_or_with_another_authority(scene: Scene) -> None:
    address = f"127.0.0.1:{scene.federation.server.desk_port}/v1/health"
    with httpx.Client(trust_env=False, timeout=10) as client:
        for scheme in ("http", "https"):
            with pytest.raises(httpx.TransportError):
                client.get(f"{scheme}://{address}")


def test_a_port_that_is_taken_is_one_line(scene: Scene) -> None:
    command = [
        sys.executable,
        "-m",
        "fedsgt.federation.server.desk_service",
        str(scene.federation.folder / "server"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("fedsgt: desk: cannot listen on 127.0.0.1:")
    assert done.stderr.count("\n") == 1
