"""Every command of the README runs. A file of its own: it takes as long as all other pages together."""

from __future__ import annotations

from pathlib import Path

import pytest
from documents import README, commands, run_command


@pytest.fixture(scope="module")
def page_folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("readme")


@pytest.mark.parametrize(("page", "line"), commands([README]))
def test_every_command_of_the_readme_runs(page: str, line: str, page_folders: Path) -> None:
    run_command(page, line, page_folders)
