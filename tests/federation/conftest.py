"""Fixtures of the federation's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tiny_world import World


@pytest.fixture
def machines(images: World, tmp_path: Path) -> Iterator[Path]:
    """Return the folder of a federation whose four clients have the records of `images`."""
    from client_machines import close_machines, make_machines

    folder = tmp_path / "federation"
    make_machines(folder, images)
    yield folder
    close_machines(folder)
