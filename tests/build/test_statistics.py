"""Build of statistics: stopped and continued, and with a deletion in between."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tiny_deletions import bytes_of
from tiny_world import Quiet, World

from fedsgt.build import statistics as build_statistics
from fedsgt.build.statistics import renew_statistics
from fedsgt.build.train import train
from fedsgt.ledger.kinds import Kind
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.runs.statistics import missing_statistics, present_statistics, statistics_in_force
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn


@pytest.fixture(scope="module")
def trained(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("statistics") / "run"
    train(images.config("heads.solve=true"), path, Quiet()).ledger.close()
    return path


@pytest.fixture
def bare(trained: Path, tmp_path: Path) -> RunFolder:
    """Return a run that has its modules, and no statistic."""
    path = shutil.copytree(trained, tmp_path / "run")
    shutil.rmtree(path / "statistics")
    return open_run(path)


def statistics(path: Path) -> dict[str, bytes]:
    return {name: data for name, data in bytes_of(path).items() if name.startswith("statistics/")}


def test_after_a_stop_it_goes_on_with_what_is_missing(
    trained: Path, bare: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish, made = build_statistics.publish_statistic, list[int]()

    def stop(*given: Any) -> bool:
        if len(made) == 7:
            raise KeyboardInterrupt
        made.append(1)
        return publish(*given)

    with monkeypatch.context() as patch:
        patch.setattr(build_statistics, "publish_statistic", stop)
        with pytest.raises(KeyboardInterrupt):
            renew_statistics(bare)
    assert len(present_statistics(bare)) == 7
    assert renew_statistics(bare) == 33
    assert statistics(bare.path) == statistics(trained)
    assert renew_statistics(bare) == 0


def test_a_deletion_meanwhile_ends_what_was_begun(bare: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    publish, made = build_statistics.publish_statistic, list[int]()

    def delete_first(*given: Any) -> bool:
        made.append(1)
        if len(made) == 3:
            other = open_run(bare.path)
            unlearn(other, [Deletion("c0", slices=(0,))])
            other.ledger.close()
        return publish(*given)

    monkeypatch.setattr(build_statistics, "publish_statistic", delete_first)
    renew_statistics(bare)
    live = bare.live()
    assert not missing_statistics(bare, live)
    counting = {name for names in statistics_in_force(bare, live).values() for name in names}
    assert present_statistics(bare) == counting, "nothing of before the deletion is left"
    assert {name.mark for name in counting if name.client == 0} == {live.mark_of(0)}


def test_the_ledger_says_that_there_are_new_ones(bare: RunFolder) -> None:
    renew_statistics(bare)
    told = [entry for entry in bare.ledger.entries() if entry.kind == Kind.STATISTICS]
    assert told[-1].body["statistics"] == 40
    renew_statistics(bare)
    assert [entry for entry in bare.ledger.entries() if entry.kind == Kind.STATISTICS] == told
