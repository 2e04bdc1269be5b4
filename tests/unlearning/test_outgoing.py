"""Statistics that a deletion ends: taken into memory before their files go."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_world import Quiet, World

from fedsgt.build.train import train
from fedsgt.runs.artefacts import BARE
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.runs.state import NOTHING_DELETED
from fedsgt.runs.statistics import missing_statistics, present_statistics
from fedsgt.stack import profile
from fedsgt.unlearning import outgoing as outgoing_module
from fedsgt.unlearning.outgoing import Outgoing
from fedsgt.unlearning.renewal import renew
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn


@pytest.fixture(scope="module")
def trained(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("outgoing") / "run"
    train(images.config("heads.solve=true"), path, Quiet()).ledger.close()
    return path


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> RunFolder:
    return open_run(shutil.copytree(trained, tmp_path / "run"))


def test_those_of_the_clients_that_were_hit_are_taken_for_chains_that_live(folder: RunFolder) -> None:
    found = Outgoing()
    unlearn(folder, [Deletion("c0", slices=(0,))], outgoing=found)
    alive = {entry.key for entry in folder.live().modules()} | {BARE}
    assert {(name.chain, name.client) for name in found.statistics} == {(chain, 0) for chain in alive}
    assert not any(name.file in {one.file for one in present_statistics(folder)} for name in found.statistics)
    for names in missing_statistics(folder, folder.live()).values():
        for name in names:
            basis = found.bases[replace(name, mark=NOTHING_DELETED.mark)]
            assert found.of(name, basis) is not None
            assert found.of(name, replace(basis, records="others")) is None
            assert found.of(name, replace(basis, computed="otherwise")) is None


def test_what_does_not_fit_into_memory_is_made_anew(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outgoing_module, "MOST_BYTES", 0)
    found = Outgoing()
    unlearn(folder, [Deletion("c0", slices=(0,))], outgoing=found)
    assert found.statistics == {}
    assert renew(folder, found) > 0
    assert not missing_statistics(folder, folder.live())


def test_an_error_is_of_no_importance(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object) -> None:
        raise OSError("gone")

    monkeypatch.setattr(outgoing_module, "read_statistic", fail)
    found = Outgoing()
    assert unlearn(folder, [Deletion("c0", slices=(0,))], outgoing=found).pending is None
    assert found.statistics == {}


def test_nothing_is_taken_out_of_a_statistic_of_another_machine(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have rounded otherwise, so that a part of the deleted records would stay in the sum."""
    monkeypatch.setattr(profile, "machine", lambda: {"cpu": "another", "system": "", "architecture": ""})
    found = Outgoing()
    unlearn(folder, [Deletion("c0", slices=(0,))], outgoing=found)
    assert found.statistics == {}
    assert renew(folder, found) > 0
    assert not missing_statistics(folder, folder.live())
