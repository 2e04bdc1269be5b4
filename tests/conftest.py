"""What holds for all tests: property tests run alike everywhere, and torch runs as it does in training."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from fedsgt.stack import profile

if TYPE_CHECKING:
    from tiny_world import World

# Before anything imports torch, which reads this once.
os.environ.update(profile.environment())

settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Four clients with small images, and a tiny ViT."""
    from tiny_world import make_world

    return make_world(tmp_path_factory.mktemp("images"), "image")


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Four clients with short texts of different lengths, and a tiny BERT."""
    from tiny_world import make_world

    return make_world(tmp_path_factory.mktemp("texts"), "text")
