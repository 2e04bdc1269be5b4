"""The processes of a deployment, for real: SuperLink and SuperNode on this machine, with TLS and keys."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from flower_internals import (
    FleetHttpClient,
    NodeAuthHttpInterceptor,
    RegisterNodeFleetRequest,
    generate_key_pairs,
    load_and_validate,
    public_key_to_bytes,
)
from remote_world import ended_at_last
from starlette.responses import PlainTextResponse

from fedsgt.engine.flower.internals import ListNodesRequest, RuntimeVersionHttpInterceptor
from fedsgt.errors import InputError
from fedsgt.federation.client.supernode import SuperNode
from fedsgt.federation.keys import make_authority, make_client
from fedsgt.federation.processes import Child, only_one
from fedsgt.federation.server.guard import Guard
from fedsgt.federation.server.submit import APP, FlowerRun, bundle, submit
from fedsgt.federation.server.superlink import SuperLink, control
from fedsgt.federation.settings import ClientSettings, ServerSettings, load_client, load_server

HELPERS = Path(__file__).parents[1] / "helpers"
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
    """With an app of the test's in the place of FedSGT's."""

    def _start_executor(self) -> Child:
        command = [sys.executable, str(HELPERS / "tiny_executor.py"), self.address, str(self.secret)]
        return Child(command, self.settings.folder / "executor.log", self.environment)


class Deployment:
    """A server and its client a."""

    def __init__(self, folder: Path) -> None:
        port, desk_port = _free_port(), _free_port()
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


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return Deployment(tmp_path)


@pytest.fixture
def node(deployment: Deployment) -> Iterator[SuperNode]:
    made = deployment.node()
    yield made
    made.stop()


def test_a_node_whose_key_is_in_the_folder_comes_online_and_signs_off(
    deployment: Deployment, node: SuperNode
) -> None:
    with SuperLink(deployment.server) as link:
        (deployment.server.clients / "z.pub").write_text("no key\n")
        found = link.register_clients()
        assert found.names == ["a"]
        (problem,) = found.problems
        assert "z.pub" in problem
        assert "\n" not in problem
        _until(lambda: deployment.said == ["a: connected"], node)
        assert deployment.online() == ["a"]
        assert node.node.child is not None
        assert not _children(node.node.child.process.pid), "only our executor does its tasks"
        with pytest.raises(httpx.HTTPStatusError):
            _register_oneself(deployment.server)
        (deployment.server.clients / "y.pub").write_text(_public_key_of("y", deployment.server.folder.parent))
        found = link.register_clients()
        assert (found.names, found.problems) == (["y"], [])
        with pytest.raises(InputError, match=f"{deployment.server.port}: cannot listen there"):
            SuperLink(deployment.server).__enter__()
        assert _status_from_outside(deployment.server, "/v1/control/list-nodes") == 403
        assert _status_from_outside(deployment.server, "/v1/fleet/pull-messages") != 403
        node.stop()
        assert deployment.online() == []


@pytest.mark.slow
def test_the_node_answers_with_the_installed_app_and_keeps_its_errors_to_itself(
    deployment: Deployment, node: SuperNode, tmp_path: Path
) -> None:
    app = _tiny_app(tmp_path / "app")
    with SuperLink(deployment.server) as link:
        link.register_clients()
        _until(lambda: deployment.said == ["a: connected"], node)
        for wish, heard in (
            ("hello", "a {'wish': 'hello', 'client': \"it's mine.toml\"}"),
            ("fail", "a ValueError; the client's executor.log says more"),
        ):
            run = _finished(submit(deployment.server, {"wish": wish}, app), node)
            assert run.status() == "finished:completed", run.log_tail()
            assert heard in run.log_tail()
        assert "record 4711 is bad" in (deployment.client.folder / "executor.log").read_text()
        long = submit(deployment.server, {"wish": "sleep"}, app)
        _until(lambda: long.status() == "running", node)
        long.stop()
        assert long.status() == "finished:stopped"


@pytest.mark.slow
def test_the_node_comes_back_by_itself_to_a_server_that_was_killed(
    deployment: Deployment, node: SuperNode
) -> None:
    with SuperLink(deployment.server) as link:
        link.register_clients()
        _until(lambda: deployment.said == ["a: connected"], node)
        link.child.process.kill()
        link.child.process.wait()
        with pytest.raises(InputError, match="ended by itself"):
            link.check()
    _until(lambda: len(deployment.said) > 1, node)
    assert deployment.said[1] == "a: the server cannot be reached; trying again"
    with SuperLink(deployment.server) as link:
        link.register_clients()
        _until(lambda: deployment.said[-1] == "a: connected", node)
        assert deployment.online() == ["a"]


@pytest.mark.slow
def test_the_server_command_ends_with_its_superlink_and_says_so(deployment: Deployment) -> None:
    script = "import typer; from fedsgt.cli.commands.server import server; typer.run(server)"
    command = [sys.executable, "-c", script, str(deployment.server.folder)]
    with ended_at_last(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert any("1 client may connect: a" in line for line in server.stdout)
        (link,) = [child for child in _children(server.pid) if b"federation.server.guard" in _command(child)]
        os.kill(link, signal.SIGKILL)
        _, problem = server.communicate(timeout=PATIENCE)
        assert server.returncode == 1
        assert problem.startswith("fedsgt: the SuperLink ended by itself: SIGKILL")


@pytest.mark.slow
def test_a_client_that_was_killed_is_back_at_once(deployment: Deployment) -> None:
    """The system ends its SuperNode in good order: otherwise the server would refuse it for a minute."""
    (deployment.client.folder / "records.parquet").touch()
    script = "import typer; from fedsgt.cli.commands.client import client; typer.run(client)"
    command = [sys.executable, "-c", script, str(deployment.client.folder)]
    with SuperLink(deployment.server) as link:
        link.register_clients()
        for end in (signal.SIGKILL, signal.SIGTERM):
            with ended_at_last(command, stdout=subprocess.PIPE) as client:
                assert client.stdout is not None
                said = iter(client.stdout)
                news = [next(line for line in said if "executor" not in line) for _ in range(2)]
                assert news[1] == "a: connected\n"
                client.send_signal(end)
                client.communicate(timeout=PATIENCE)
        assert client.returncode == 0
        assert deployment.online() == []


def test_a_child_ends_with_its_parent_however_that_ends(tmp_path: Path) -> None:
    script = (
        "import os, sys, time; from pathlib import Path; from fedsgt.federation.processes import Child\n"
        f"child = Child(['/bin/sleep', '600'], Path({str(tmp_path / 'log')!r}), os.environ)\n"
        "print(child.process.pid, flush=True); time.sleep(600)"
    )
    with ended_at_last([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        _until(lambda: _command(child).startswith(b"/bin/sleep"))
        parent.send_signal(signal.SIGKILL)
        parent.communicate()
        _until(lambda: not _command(child))


def test_a_second_server_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    with (
        only_one(tmp_path, "server"),
        pytest.raises(InputError, match="a server is running on this folder"),
        only_one(tmp_path, "server"),
    ):
        pass


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


def test_the_app_folder_is_one_that_flower_takes() -> None:
    config, warnings = load_and_validate(APP / "pyproject.toml")
    assert not warnings
    assert config["project"]["dependencies"] == []
    assert config["tool"]["flwr"]["app"]["config"] == {
        "task": "train",
        "config": "",
        "output": "",
        "progress": "",
        "server": "",
        "seed": 0,
    }
    assert bundle(APP)


def _until(holds: Callable[[], bool], node: SuperNode | None = None) -> None:
    """Tend the node meanwhile."""
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until, "waited in vain"
        if node is not None:
            node.tend()
        time.sleep(0.1)


def _finished(run: FlowerRun, node: SuperNode) -> FlowerRun:
    _until(lambda: run.status().startswith("finished"), node)
    return run


def _command(process: int) -> bytes:
    """Return the command line of a running process; one that has ended has none."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def _children(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _status_from_outside(server: ServerSettings, path: str) -> int:
    """Return the status that a proxy on this machine gets if it speaks for a client elsewhere."""
    trusted = ssl.create_default_context(cafile=server.ca)
    url, outside = f"https://127.0.0.1:{server.port}{path}", {"X-Forwarded-For": "203.0.113.5"}
    return httpx.post(url, headers=outside, verify=trusted).status_code


def _register_oneself(server: ServerSettings) -> None:
    """Try to register a node that has no entry in the server's folder."""
    private, public = generate_key_pairs()
    with FleetHttpClient.from_server_address(
        f"127.0.0.1:{server.port}",
        insecure=False,
        root_certificates=server.ca.read_bytes(),
        interceptors=[RuntimeVersionHttpInterceptor("SuperNode"), NodeAuthHttpInterceptor(private, public)],
    ) as node:
        node.RegisterNode(RegisterNodeFleetRequest(public_key=public_key_to_bytes(public)))


def _public_key_of(name: str, folder: Path) -> str:
    make_client(folder, name, enrol=False)
    return (folder / name / "node.pub").read_text()


def _tiny_app(folder: Path) -> Path:
    """A Flower app whose client's part must never run."""
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
