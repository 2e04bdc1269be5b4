"""A server and its client as real processes on this machine, with TLS and keys."""

from __future__ import annotations

import socket
import ssl
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
from flower_internals import (
    FleetHttpClient,
    NodeAuthHttpInterceptor,
    RegisterNodeFleetRequest,
    generate_key_pairs,
    public_key_to_bytes,
)

from fedsgt.engine.flower.internals import ListNodesRequest, RuntimeVersionHttpInterceptor
from fedsgt.federation.client.supernode import SuperNode
from fedsgt.federation.keys import make_authority, make_client
from fedsgt.federation.processes import Child
from fedsgt.federation.server.submit import APP, FlowerRun
from fedsgt.federation.server.superlink import control
from fedsgt.federation.settings import ClientSettings, ServerSettings, load_client, load_server

HELPERS = Path(__file__).parent
PATIENCE = 120.0

SERVER_APP = """
from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import ServerApp
app = ServerApp()

@app.main()
def main(grid, context):
    node = next(iter(grid.get_nodes()))
    ask = RecordDict({"ask": ConfigRecord({"wish": context.run_config["wish"]})})
    (reply,) = grid.send_and_receive([Message(ask, node.node_id, MessageType.TRAIN)])
    print(node.name, reply.error.reason if reply.has_error() else dict(reply.content["answer"]))
"""
CLIENT_APP = "raise SystemExit('code from the server ran on the node')"


class NodeOfTest(SuperNode):
    """A SuperNode with an app of the test's in the place of FedSGT's."""

    def _start_executor(self) -> Child:
        command = [sys.executable, str(HELPERS / "tiny_executor.py"), self.address, str(self.secret)]
        return Child(command, self.settings.folder / "executor.log", self.environment)


class Deployment:
    """A server and its client a."""

    def __init__(self, folder: Path) -> None:
        port, desk_port = free_port(), free_port()
        make_authority(folder, ["127.0.0.1"], port=port, desk_port=desk_port)
        make_client(folder, "a")
        self.server: ServerSettings = load_server(folder / "server")
        self.client: ClientSettings = load_client(folder / "a")
        self.said: list[str] = []
        self.private = folder / "private"
        self.private.mkdir(mode=0o700)

    def node(self) -> SuperNode:
        return NodeOfTest(self.client, self.client.folder / "it's mine.toml", self.private, self.said.append)

    def online(self) -> list[str]:
        with control(self.server) as client:
            nodes = client.ListNodes(ListNodesRequest()).nodes_info
        return [node.name for node in nodes if node.status == "online"]


def until(holds: Callable[[], bool], node: SuperNode | None = None) -> None:
    """Wait until this holds, and tend the node meanwhile."""
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until, "waited in vain"
        if node is not None:
            node.tend()
        time.sleep(0.1)


def finished(run: FlowerRun, node: SuperNode) -> FlowerRun:
    until(lambda: run.status().startswith("finished"), node)
    return run


def command_of(process: int) -> bytes:
    """Return the command line of a running process; one that has ended has none."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def children_of(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def status_from_outside(server: ServerSettings, path: str) -> int:
    """Return the status that a proxy on this machine gets if it speaks for a client elsewhere."""
    trusted = ssl.create_default_context(cafile=server.ca)
    url, outside = f"https://127.0.0.1:{server.port}{path}", {"X-Forwarded-For": "203.0.113.5"}
    return httpx.post(url, headers=outside, verify=trusted).status_code


def register_oneself(server: ServerSettings) -> None:
    """Try to register a node that has no entry in the server's folder."""
    private, public = generate_key_pairs()
    with FleetHttpClient.from_server_address(
        f"127.0.0.1:{server.port}",
        insecure=False,
        root_certificates=server.ca.read_bytes(),
        interceptors=[RuntimeVersionHttpInterceptor("SuperNode"), NodeAuthHttpInterceptor(private, public)],
    ) as node:
        node.RegisterNode(RegisterNodeFleetRequest(public_key=public_key_to_bytes(public)))


def public_key_of(name: str, folder: Path) -> str:
    make_client(folder, name, enrol=False)
    return (folder / name / "node.pub").read_text()


def tiny_app(folder: Path) -> Path:
    """Make a Flower app whose client's part must never run."""
    package = folder / "tiny"
    package.mkdir(parents=True)
    text = (
        (APP / "pyproject.toml")
        .read_text()
        .replace("fedsgt_app", "tiny")
        .replace('task = "train"', 'wish = ""')
    )
    (folder / "pyproject.toml").write_text(text)
    (package / "__init__.py").write_text("")
    (package / "server_app.py").write_text(SERVER_APP)
    (package / "client_app.py").write_text(CLIENT_APP)
    return folder
