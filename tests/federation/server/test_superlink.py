"""The SuperLink for real: nodes with registered keys come in, others do not."""

from __future__ import annotations

import socket
import tomllib

import httpx
import pytest
from deployment import Deployment, children_of, public_key_of, register_oneself, status_from_outside, until

from fedsgt.engine.flower.internals import ListNodesRequest
from fedsgt.errors import InputError
from fedsgt.federation.client.supernode import SuperNode
from fedsgt.federation.server.superlink import (
    CONNECTION,
    SuperLink,
    Unreachable,
    check_port,
    control,
    flower_home,
)


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
        until(lambda: deployment.said == ["a: connected"], node)
        assert deployment.online() == ["a"]
        assert node.node.child is not None
        assert not children_of(node.node.child.process.pid), "only our executor does its tasks"
        with pytest.raises(httpx.HTTPStatusError):
            register_oneself(deployment.server)
        (deployment.server.clients / "y.pub").write_text(public_key_of("y", deployment.server.folder.parent))
        found = link.register_clients()
        assert (found.names, found.problems) == (["y"], [])
        with pytest.raises(InputError, match=f"{deployment.server.port}: cannot listen there"):
            SuperLink(deployment.server).__enter__()
        assert status_from_outside(deployment.server, "/v1/control/list-nodes") == 403
        assert status_from_outside(deployment.server, "/v1/fleet/pull-messages") != 403
        node.stop()
        assert deployment.online() == []


def test_a_port_that_is_taken_is_told_before_anything_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"127\.0\.0\.1:{port}: cannot listen there .*another port in"):
            check_port("127.0.0.1", port)
    check_port("127.0.0.1", port)


def test_flower_gets_a_folder_of_its_own_with_the_connection(deployment: Deployment) -> None:
    """The user's own settings of Flower are neither read nor written."""
    home = flower_home(deployment.server)
    assert home == deployment.server.folder / "flower"
    told = tomllib.loads((home / "config.toml").read_text())["superlink"]
    assert told["default"] == CONNECTION
    assert told[CONNECTION] == {
        "address": f"127.0.0.1:{deployment.server.port}",
        "root-certificates": str(deployment.server.ca),
    }


def test_a_server_that_does_not_run_is_named_with_the_command_to_start_it(deployment: Deployment) -> None:
    with (
        pytest.raises(Unreachable, match=f"start it: fedsgt server {deployment.server.folder}"),
        control(deployment.server) as client,
    ):
        client.ListNodes(ListNodesRequest())
