"""A client's SuperNode stays connected, and tells each change once."""

from __future__ import annotations

import os

import pytest
from deployment import Deployment, until

from fedsgt.errors import InputError
from fedsgt.federation.client.supernode import NEWS, SuperNode, _quoted
from fedsgt.federation.processes import Child
from fedsgt.federation.server.superlink import SuperLink


@pytest.mark.slow
def test_the_node_comes_back_by_itself_to_a_server_that_was_killed(
    deployment: Deployment, node: SuperNode
) -> None:
    with SuperLink(deployment.server) as link:
        link.register_clients()
        until(lambda: deployment.said == ["a: connected"], node)
        link.child.process.kill()
        link.child.process.wait()
        with pytest.raises(InputError, match="ended by itself"):
            link.check()
    until(lambda: len(deployment.said) > 1, node)
    assert deployment.said[1] == "a: the server cannot be reached; trying again"
    with SuperLink(deployment.server) as link:
        link.register_clients()
        until(lambda: deployment.said[-1] == "a: connected", node)
        assert deployment.online() == ["a"]


def test_each_change_is_told_once_from_whole_lines(deployment: Deployment) -> None:
    node = deployment.node()
    log = deployment.client.folder / "supernode.log"
    child = Child(["/bin/true"], log, os.environ)
    child.stop()
    refused = next(sign for sign, news in NEWS.items() if "{name}" in news)
    for text in (
        "SuperNode ID: 7\nConnection successful after 2 s\n",
        "Connection attempt failed\nConnection attempt failed\nConnection att",
        f"empt failed\n{refused}\nSuperNo",
        "de ID: 8\n",
    ):
        with log.open("a") as file:
            file.write(text)
        node._tell(child)
    assert [line.removeprefix("a: ").split(";")[0].split(":")[0] for line in deployment.said] == [
        "connected",
        "the server cannot be reached",
        "the server does not let this client in",
        "connected",
    ]
    assert "clients/a.pub" in deployment.said[2]


def test_the_secret_is_for_the_owner_alone_and_new_each_time(deployment: Deployment) -> None:
    one = deployment.node().secret
    assert one.stat().st_mode & 0o077 == 0
    first = one.read_bytes()
    assert len(first) == 32
    assert deployment.node().secret.read_bytes() != first


@pytest.mark.parametrize("path", ["/home/it's mine/client.toml", '/home/"x"/client.toml', "/plain"])
def test_paths_with_quotes_reach_flower_as_they_are(path: str) -> None:
    import tomllib

    assert tomllib.loads(f"client={_quoted(path)}") == {"client": path}
