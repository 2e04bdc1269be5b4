"""A store of modules, in a folder and at a URL."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from fedsgt.store import Modules, open_objects


@pytest.fixture(params=["folder", "remote"])
def modules(request: pytest.FixtureRequest, tmp_path: Path) -> Modules:
    return Modules(
        open_objects(tmp_path / "store" if request.param == "folder" else f"memory://{uuid4().hex}")
    )
