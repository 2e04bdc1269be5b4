"""The run of the starter file that `fedsgt init` writes, made small enough for tests."""

from __future__ import annotations

from pathlib import Path

from command import fedsgt

SMALL = (
    *("-s", "grouping.groups=2"),
    *("-s", "plan.kind=rotations"),
    *("-s", "plan.budget=2"),
    *("-s", "data.limit=160"),
    *("-s", "data.test_limit=60"),
    *("-s", "training.epochs=1"),
    *("-s", "engine.workers=0"),
)


def train_starter(folder: Path) -> Path:
    """Write the starter file into this folder, train it, and return the run's folder."""
    assert fedsgt("init", "my.toml", cwd=folder).returncode == 0
    done = fedsgt("train", "my.toml", *SMALL, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "4 modules of 2 sequences; 4 trained now" in done.stdout
    return folder / "runs" / "my"
