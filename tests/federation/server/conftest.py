"""A federation whose desk is open, for the tests of the desk and of its service."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from remote_world import Federation, desk_connection, desk_process, make_federation

from fedsgt.federation.keys import load_private
from fedsgt.federation.server.desk import REFUSED
from fedsgt.federation.signed_request import Envelope, sign_record_requests


@dataclass(frozen=True)
class Scene:
    """A federation whose desk is open."""

    federation: Federation
    process: subprocess.Popen[str]

    def asked(self, name: str, *ids: str, key: str | None = None) -> Envelope:
        """Return a request for these records of the client, signed with its key or another's."""
        used = load_private(self.federation.settings(key or name).key)
        run, client = self.federation.run().description.id, self.federation.client(name)
        (found,) = sign_record_requests(used, run, client, ids)
        return found

    def send(self, envelope: object) -> httpx.Response:
        return self.send_bytes(json.dumps(envelope).encode())

    def send_bytes(self, data: bytes) -> httpx.Response:
        with desk_connection(self.federation.server) as client:
            return client.post("/v1/requests", content=data)

    def refusals(self) -> list[dict[str, Any]]:
        path = self.federation.folder / "server" / REFUSED
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def head(self) -> int:
        return self.federation.run().ledger.head()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Return a federation of two clients whose desk is open."""
    federation = make_federation(tmp_path_factory.mktemp("desk") / "fed")
    with desk_process(federation.server) as process:
        yield Scene(federation, process)
