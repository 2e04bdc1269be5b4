"""`fedsgt client`: back at once after a kill, and refused without its files."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command import fedsgt
from deployment import PATIENCE, Deployment
from remote_world import ended_at_last

from fedsgt.federation.server.superlink import SuperLink


@pytest.mark.slow
def test_a_client_that_was_killed_is_back_at_once(tmp_path: Path) -> None:
    """The system ends its SuperNode in good order: otherwise the server would refuse it for a minute."""
    deployment = Deployment(tmp_path)
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


@pytest.mark.parametrize(
    ("name", "setting"), [("ca.crt", "ca"), ("node.key", "key"), ("salt", "salt"), ("", "data.source")]
)
def test_a_client_without_one_of_its_files_does_not_start(tmp_path: Path, name: str, setting: str) -> None:
    folder = Deployment(tmp_path).client.folder
    (folder / "records.parquet").touch()
    gone = folder / (name or "records.parquet")
    gone.unlink()
    done = fedsgt("client", str(folder))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"fedsgt: {gone}: no such file; put it there, or set {setting} in {folder}\n"
    assert not (folder / "supernode.log").exists()
