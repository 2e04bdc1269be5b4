"""Fixtures of the federation's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from deployment import Deployment
    from tiny_world import World

    from fedsgt.federation.client.supernode import SuperNode


@pytest.fixture
def machines(images: World, tmp_path: Path) -> Iterator[Path]:
    """Return the folder of a federation whose four clients have the records of `images`."""
    from client_machines import close_machines, make_machines

    folder = tmp_path / "federation"
    make_machines(folder, images)
    yield folder
    close_machines(folder)


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    """Return a server and its client a, of which nothing runs yet."""
    from deployment import Deployment

    return Deployment(tmp_path)


@pytest.fixture
def node(deployment: Deployment) -> Iterator[SuperNode]:
    """Return the SuperNode of client a, which is stopped at the end of the test."""
    made = deployment.node()
    yield made
    made.stop()
