"""The Flower app that is submitted: one that Flower takes, and an error that says what to start."""

from __future__ import annotations

import pytest
from deployment import Deployment
from flower_internals import (
    load_and_validate,
)

from fedsgt.errors import InputError
from fedsgt.federation.server.submit import APP, bundle, submit


def test_the_app_folder_is_one_that_flower_takes() -> None:
    config, warnings = load_and_validate(APP / "pyproject.toml")
    assert not warnings
    assert config["project"]["dependencies"] == []
    assert config["tool"]["flwr"]["app"]["config"] == {
        "task": "train",
        "config": "",
        "output": "",
        "progress": "",
        "server": "",
        "seed": 0,
    }
    assert bundle(APP)


def test_the_same_app_is_the_same_archive() -> None:
    """Flower knows an app by the hash of its archive."""
    assert bundle(APP) == bundle(APP)


def test_without_a_server_nothing_is_submitted(deployment: Deployment) -> None:
    with pytest.raises(InputError, match="no SuperLink of this server answers at 127"):
        submit(deployment.server, {"task": "train"})
