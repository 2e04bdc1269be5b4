"""Every command of the README runs. A file of its own: it takes as long as all other pages together."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from documents import README, blocks, commands, installed, run_command
from PIL import Image

from fedsgt.cli.commands.init import STARTER
from fedsgt.config import load, to_toml
from fedsgt.data import Columns, load_dataset
from fedsgt.stack import profile


@pytest.fixture(scope="module")
def page_folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("readme")


@pytest.mark.parametrize(("page", "line"), commands([README]))
def test_every_command_of_the_readme_runs(page: str, line: str, page_folders: Path) -> None:
    """One that needs torch, as a reader starts it; the others in this process, which has torch already."""
    run_command(page, line, page_folders, apart=line.startswith("fedsgt predict"))


@pytest.fixture(scope="module")
def python_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files that the Python examples name."""
    folder = tmp_path_factory.mktemp("python")
    small = [
        "grouping.groups=3",
        "plan.budget=3",
        "data.limit=120",
        "data.test_limit=30",
        "training.epochs=1",
    ]
    config = load(STARTER, [*small, "data.clients=4"])
    (folder / "my.toml").write_text(to_toml(config), encoding="utf-8")
    digit = load_dataset("digits", Columns(("image",), images=True), split="test").records[0].content[0]
    assert isinstance(digit, bytes)
    Image.open(io.BytesIO(digit)).save(folder / "digit.png")
    return folder


@pytest.mark.parametrize(("page", "code"), blocks("python", [README]))
def test_every_python_example_of_the_readme_runs(page: str, code: str, python_folder: Path) -> None:
    """In a process of its own, without a guard and without the execution profile, as a reader runs it."""
    environment = {name: value for name, value in os.environ.items() if name not in profile.environment()}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=python_folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_demo_as_it_is(tmp_path: Path) -> None:
    done = installed(["demo"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "passed: every module looked at is, bit for bit, what the retained data gives" in done.stdout
    assert "nothing is live" not in done.stdout
