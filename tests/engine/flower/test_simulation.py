"""The Flower engine over simulated nodes on Ray, as a person starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tiny_world import World, made, trained

from fedsgt.config import to_toml
from fedsgt.runs.folder import open_run


def test_also_in_flowers_simulation(images: World, tmp_path: Path) -> None:
    """The simulation runs in a process of its own, as a person starts it."""
    (tmp_path / "run.toml").write_text(to_toml(images.config("engine.workers=2")), encoding="utf-8")
    command = (sys.executable, "-m", "fedsgt", "train", "run.toml", "--engine", "flower-sim", "-o", "there")
    home = tmp_path / "home"
    environment = {**os.environ, "HOME": str(home)}
    environment.pop("FLWR_HOME", None)
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert not (home / ".flwr").exists(), "Flower writes an id there for its reports to its makers"
    assert made(open_run(tmp_path / "there")) == trained(tmp_path / "here", images.config())
