"""Statistics after a deletion: the bytes of those made from the retained records alone, either way."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from tiny_deletions import bytes_of, train_otherwise
from tiny_world import Quiet, World, write_rows

from fedsgt.build.train import train
from fedsgt.proof.audit import audit
from fedsgt.runs.artefacts import BARE
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.runs.statistics import missing_statistics, present_statistics, read_statistic
from fedsgt.unlearning import renewal
from fedsgt.unlearning.outgoing import Outgoing
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn


@pytest.fixture(scope="module")
def trained(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("renewal") / "run"
    train(images.config("heads.solve=true"), path, Quiet()).ledger.close()
    return path


def copied(trained: Path, path: Path) -> RunFolder:
    return open_run(shutil.copytree(trained, path))


def statistics(folder: RunFolder) -> dict[str, bytes]:
    return {name: data for name, data in bytes_of(folder.path).items() if name.startswith("statistics/")}


def test_taking_away_and_making_anew_give_the_bytes_of_retained_records(
    images: World, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = next(row for row in images.rows if row.client == "c0")
    taken, outgoing = copied(trained, tmp_path / "run"), Outgoing()
    unlearn(taken, [Deletion("c0", records=(row.id,))], outgoing=outgoing)
    missing = sum(map(len, missing_statistics(taken, taken.live()).values()))
    with monkeypatch.context() as patch:
        patch.setattr(renewal, "renew_statistics", lambda *given: 0)  # what is made is made by taking away
        assert renewal.renew(taken, outgoing) == missing > 0
    found = statistics(taken)
    for name in present_statistics(taken):
        (taken.path / name.file).unlink()
    assert renewal.renew(taken) > missing  # anew, and those of the other clients as well
    assert statistics(taken) == found
    # The bare backbone's statistic needs no module, so that another run's can be compared.
    alone = train(images.without([row]).config("heads.solve=true"), tmp_path / "alone", Quiet())
    for client in range(4):
        one, other = (
            read_statistic(
                folder,
                next(
                    name
                    for name in sorted(present_statistics(folder))
                    if (name.chain, name.client) == (BARE, client)
                ),
            )
            for folder in (taken, alone)
        )
        assert one is not None
        assert other is not None
        assert np.array_equal(one.gram, other.gram)
        assert np.array_equal(one.cross, other.cross)
        assert one.records == other.records


def test_what_is_left_is_summed_anew_if_it_is_less_than_what_goes(
    images: World, trained: Path, tmp_path: Path
) -> None:
    ids = [row.id for row in images.rows if row.client == "c0"]
    folder, outgoing = copied(trained, tmp_path / "run"), Outgoing()
    unlearn(folder, [Deletion("c0", records=tuple(ids[1:]))], outgoing=outgoing)
    assert renewal.renew(folder, outgoing) > 0
    made = [read_statistic(folder, name) for name in present_statistics(folder) if name.client == 0]
    assert [one.records for one in made if one is not None] == [1] * len(made)
    assert not missing_statistics(folder, folder.live())


def test_a_client_without_records_has_no_statistic(trained: Path, tmp_path: Path) -> None:
    folder, outgoing = copied(trained, tmp_path / "run"), Outgoing()
    unlearn(folder, [Deletion("c0")], outgoing=outgoing)
    assert renewal.renew(folder, outgoing) == 0
    assert {name.client for name in present_statistics(folder)} == {1, 2, 3}


def test_nothing_is_taken_out_of_a_statistic_of_other_records(
    images: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner has changed the record since: its features now are not those that the sum has."""
    source = tmp_path / "data"
    write_rows(source, images.rows, "image")
    folder = train(images.config("heads.solve=true", f"data.source={source}"), tmp_path / "run", Quiet())
    row = next(row for row in images.rows if row.client == "c0")
    other = next(one for one in images.rows if one.content != row.content)
    shutil.rmtree(source)
    write_rows(source, images.instead(row, content=other.content).rows, "image")
    outgoing = Outgoing()
    unlearn(folder, [Deletion("c0", records=(row.id,))], outgoing=outgoing)
    assert outgoing.statistics
    with monkeypatch.context() as patch:
        patch.setattr(renewal, "renew_statistics", lambda *given: 0)
        assert renewal.renew(folder, outgoing) == 0
    assert renewal.renew(folder, outgoing) > 0  # of what is retained, anew
    assert not missing_statistics(folder, folder.live())


def test_nothing_is_taken_out_of_a_statistic_of_another_module(
    images: World, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under it the deleted records have other features, and a part of them would stay in the sum."""
    folder, outgoing = copied(trained, tmp_path / "run"), Outgoing()
    for entry in folder.description.modules:
        if len(entry.groups) == 1:
            train_otherwise(folder, entry.key)
    row = next(row for row in images.rows if row.client == "c0")
    unlearn(folder, [Deletion("c0", records=(row.id,))], outgoing=outgoing)
    assert len(outgoing.statistics) > 1
    with monkeypatch.context() as patch:
        patch.setattr(renewal, "renew_statistics", lambda *given: 0)
        assert renewal.renew(folder, outgoing) == 1
    assert {name.chain for name in present_statistics(folder) if name.client == 0} == {BARE}


def test_a_client_whose_records_changed_holds_up_no_other(images: World, tmp_path: Path) -> None:
    source = tmp_path / "data"
    write_rows(source, images.rows, "image")
    folder = train(images.config("heads.solve=true", f"data.source={source}"), tmp_path / "run", Quiet())
    gone = next(row for row in images.rows if row.client == "c1")
    shutil.rmtree(source)
    write_rows(source, images.without([gone]).rows, "image")
    ids = [row.id for row in images.rows if row.client == "c0"]
    unlearn(folder, [Deletion("c0", records=tuple(ids[:8]))])
    assert renewal.renew(folder) > 0
    assert not missing_statistics(folder, folder.live())


def test_activations_of_slices_that_no_deletion_would_find_are_not_kept(
    images: World, tmp_path: Path
) -> None:
    folder = train(images.config("heads.solve=true", "peft.layers=1"), tmp_path / "run", Quiet())
    assert any((folder.path / "cache").rglob("*.activations"))
    row = next(row for row in images.rows if row.client == "c0")
    unlearn(folder, [Deletion("c0", records=(row.id,))])
    assert renewal.renew(folder) > 0
    assert [finding for finding in audit(folder) if finding.problem is not None] == []
