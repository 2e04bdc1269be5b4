"""The Flower engine over simulated nodes on Ray, as a person starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_world import World, made, trained

from fedsgt.config import to_toml
from fedsgt.runs.folder import open_run
from fedsgt.stack import profile


@pytest.mark.slow
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


STATISTICS = """
import sys
from pathlib import Path

from fedsgt.build.client_access import LOCAL
from fedsgt.build.prepare import describe, prepare
from fedsgt.config import load
from fedsgt.engine.events import ignore
from fedsgt.engine.task import StatisticTask
from fedsgt.runs.folder import create_run


def main() -> None:
    prints = []
    for name in ("in-process", "flower-sim"):
        prepared = prepare(load("run.toml", [f"engine.name={name}"]))
        folder = create_run(Path(name), prepared.run, describe(prepared))
        tasks = [StatisticTask((), client.name, (0, 1)) for client in prepared.clients]
        with LOCAL.engine(folder, prepared, ignore) as engine:
            found = {task.client: statistic for task, statistic in engine.statistics(tasks)}
        prints.append([(key, one.records, one.gram.tobytes()) for key, one in sorted(found.items())])
    assert len(prints[0]) == 4
    assert prints[0] == prints[1]


if __name__ == "__main__":
    main()
"""


@pytest.mark.slow
def test_statistics_in_flowers_simulation(images: World, tmp_path: Path) -> None:
    config = images.config("engine.workers=1")
    (tmp_path / "run.toml").write_text(to_toml(config), encoding="utf-8")
    (tmp_path / "child.py").write_text(STATISTICS, encoding="utf-8")
    environment = {**os.environ, "HOME": str(tmp_path / "home"), **profile.environment()}
    done = subprocess.run(
        (sys.executable, "child.py"),
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
