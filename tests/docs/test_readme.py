"""Every command of the README runs. A file of its own: it takes as long as all other pages together."""

from __future__ import annotations

from pathlib import Path

import pytest
from documents import README, commands, installed, run_command


@pytest.fixture(scope="module")
def page_folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("readme")


@pytest.mark.parametrize(("page", "line"), commands([README]))
def test_every_command_of_the_readme_runs(page: str, line: str, page_folders: Path) -> None:
    """One that needs torch, as a reader starts it; the others in this process, which has torch already."""
    run_command(page, line, page_folders, apart=line.startswith("fedsgt predict"))


@pytest.mark.slow
def test_the_demo_as_it_is(tmp_path: Path) -> None:
    done = installed(["demo"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "passed: every module looked at is, bit for bit, what the retained data gives" in done.stdout
