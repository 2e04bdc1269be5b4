"""Statistics that were made with other weights than the backbone's are destroyed, whoever made them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tiny_deletions import copied, trained_run
from tiny_world import Quiet, World

from fedsgt.build.statistics import renew_statistics
from fedsgt.build.train import train
from fedsgt.errors import BackboneChanged
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.statistics import missing_statistics, present_statistics
from fedsgt.stack.backbone import Backbone
from fedsgt.unlearning.outgoing import Outgoing
from fedsgt.unlearning.renewal import renew
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn


@pytest.fixture(scope="module")
def source(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run(images, tmp_path_factory.mktemp("source") / "run", ["heads.solve=true"])


@pytest.fixture
def folder(source: Path, tmp_path: Path) -> RunFolder:
    return copied(source, tmp_path / "run")


def changed(self: Backbone) -> None:
    raise BackboneChanged("the frozen weights are others")


@pytest.mark.parametrize("way", ["renewal", "training", "retraining", "subtraction"])
def test_none_is_left_of_a_backbone_that_changed(
    folder: RunFolder, images: World, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    outgoing = Outgoing()
    row = next(row for row in images.rows if row.client == "c0")
    if way == "training":
        (folder.path / next(iter(present_statistics(folder))).file).unlink()
    else:
        unlearn(folder, [Deletion("c0", records=(row.id,))], outgoing=outgoing)
    work: Callable[[], object] = partial(train, folder.config, folder.path, Quiet())
    if way in ("renewal", "subtraction"):
        work = partial(renew, folder, outgoing if way == "subtraction" else None)
    with monkeypatch.context() as patch:
        patch.setattr(Backbone, "check", changed)
        with pytest.raises(BackboneChanged):
            work()
    assert present_statistics(folder) == set()
    assert renew_statistics(folder)
    assert missing_statistics(folder, folder.live()) == {}
