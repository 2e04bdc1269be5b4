"""The rebuild: what it judges without training, and its end when its starter is gone."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from rebuild_child import warm
from tiny_world import save_models

from fedsgt.config import Config
from fedsgt.proof.verify import Verification, verify
from fedsgt.runs.description import Description
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.store import Origin

pytestmark = pytest.mark.usefixtures("temporary")


def test_who_started_it_is_gone(folder: RunFolder, tmp_path: Path) -> None:
    """After `kill -9` of its starter, the process ends at any point of its work and removes the data."""
    kept = tmp_path / "kept"
    verify(folder, command=warm(), keep=kept)
    shutil.rmtree(kept / "modules")
    for lines in range(3):
        own = shutil.copytree(kept, tmp_path / f"copy-{lines}")
        command = [*warm(), str(own), "1"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert all(child.stdout.readline() for _ in range(lines))
            child.communicate()  # closes its input first
        assert not own.exists()


Groups = tuple[int, ...]


def reasons(found: Verification) -> dict[Groups, str]:
    return {entry.groups: entry.reason for entry in found.modules}


def test_other_settings_backbone_or_key(folder: RunFolder, config: Config, tmp_path: Path) -> None:
    save_models(tmp_path / "other", seed=6)
    training = config.training.model_copy(update={"epochs": 2})
    model = config.model.model_copy(update={"backbone": str(tmp_path / "other" / "vit")})
    for changes, message in (
        ({"training": training}, "the run's settings are not those"),
        ({"model": model}, "the backbone's weights are not those"),
    ):
        other = RunFolder(folder.path, config.model_copy(update=changes), folder.description)
        found = verify(other, command=warm())
        assert found.counts == {"different": 9}
        assert all(message in reason for reason in reasons(found).values())


def test_a_key_that_is_not_that_of_its_data(folder: RunFolder) -> None:
    old, new = folder.description.keys[1, 2, 0], "ab" * 32
    said = folder.modules.manifest(old).model_dump(exclude={"sha256"})
    folder.modules.put(Origin.model_validate(said | {"key": new}), folder.modules.get(old))
    # Whoever runs the software can describe a run wrongly; an edited file alone would be refused.
    folder.describe_anew(Description.read(folder.description.to_text().replace(old, new), "run.json"))
    found = verify(open_run(folder.path), command=warm())
    assert found.counts == {"same": 8, "different": 1}
    assert reasons(found)[1, 2, 0] == "its key is not that of its data and settings"


def test_another_execution_profile_proves_nothing(folder: RunFolder) -> None:
    found = verify(folder, command=warm("other_profile"))
    assert found.counts == {"not comparable": 9}
    assert (found.passed, found.failed) == (False, False)
    version = folder.description.profile["torch"]
    assert set(reasons(found).values()) == {
        f"made under another execution profile: torch {version} against 0.1"
    }
