"""The app used Flower's way: `flwr run` on its folder gives the modules that `fedsgt train` gives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny_world import World, made, trained

from fedsgt.config import to_toml
from fedsgt.federation.processes import flower_environment
from fedsgt.federation.server.submit import APP
from fedsgt.runs.folder import open_run


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Flower starts a SuperLink of its own, which stays; it is known by its folder."""
    home = tmp_path / "flower"
    home.mkdir()
    yield home
    for process in Path("/proc").iterdir():
        try:
            command = (process / "cmdline").read_bytes() if process.name.isdecimal() else b""
        except OSError:
            continue
        if b"flower-superlink" in command and os.fsencode(home) in command:
            os.kill(int(process.name), signal.SIGTERM)


@pytest.mark.slow
def test_flowers_own_command_runs_the_app(images: World, home: Path, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(to_toml(images.config()), encoding="utf-8")
    given = f'config="{tmp_path / "run.toml"}" output="{tmp_path / "there"}"'
    nodes = "num-supernodes=4 client-resources-num-cpus=1"
    command = [str(Path(sys.executable).with_name("flwr")), "run", str(APP), "--run-config", given]
    done = subprocess.run(
        [*command, "--federation-config", nodes, "--stream"],
        env=flower_environment(home),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert made(open_run(tmp_path / "there")) == trained(tmp_path / "here", images.config())
