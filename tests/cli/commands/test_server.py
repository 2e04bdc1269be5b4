"""`fedsgt server`: it ends with its processes, and says why it cannot start."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from command import fedsgt
from deployment import PATIENCE, Deployment, children_of, command_of
from remote_world import ended_at_last


@pytest.mark.slow
def test_the_server_command_ends_with_its_superlink_and_says_so(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    script = "import typer; from fedsgt.cli.commands.server import server; typer.run(server)"
    command = [sys.executable, "-c", script, str(deployment.server.folder)]
    with ended_at_last(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert any("1 client may connect: a" in line for line in server.stdout)
        (link,) = [
            child for child in children_of(server.pid) if b"federation.server.guard" in command_of(child)
        ]
        os.kill(link, signal.SIGKILL)
        _, problem = server.communicate(timeout=PATIENCE)
        assert server.returncode == 1
        assert problem.startswith("fedsgt: the SuperLink ended by itself: SIGKILL")


def test_a_desk_port_that_is_taken_is_told_before_the_superlink_starts(tmp_path: Path) -> None:
    settings = Deployment(tmp_path).server
    with socket.create_server(("127.0.0.1", settings.desk_port)):
        done = fedsgt("server", str(settings.folder))
    assert done.returncode == 2
    assert f"127.0.0.1:{settings.desk_port}: cannot listen there" in done.stderr
    assert not (settings.folder / "superlink.log").exists()


def test_a_folder_that_is_no_servers_is_one_line(tmp_path: Path) -> None:
    done = fedsgt("server", str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
