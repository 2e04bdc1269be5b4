"""Build of statistics: stopped and continued, and with a deletion in between."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tiny_deletions import bytes_of, train_otherwise
from tiny_world import Quiet, Row, World, write_rows

from fedsgt.build import statistics as build_statistics
from fedsgt.build.prepare import Prepared, prepare
from fedsgt.build.statistics import renew_statistics
from fedsgt.build.train import bring_up_to_date, train
from fedsgt.engine.events import ClientTrouble, Event, StatisticsMade
from fedsgt.ledger.kinds import Kind
from fedsgt.proof.verify import verify
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.runs.statistics import missing_statistics, note_of, present_statistics, statistics_in_force
from fedsgt.unlearning.recovery import recover
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


def test_a_record_that_vanished_from_a_hit_group_is_in_no_statistic(images: World, tmp_path: Path) -> None:
    """A training then describes the client without it; the sums must not have it either."""
    source = tmp_path / "data"
    write_rows(source, images.rows, "image")
    config = images.config("heads.solve=true", f"data.source={source}")
    folder = train(config, tmp_path / "run", Quiet())
    gone, asked = in_one_group(images, prepare(config))
    unlearn(folder, [Deletion(asked.client, records=(asked.id,))])
    shutil.rmtree(source)
    write_rows(source, images.without([gone]).rows, "image")
    renew_statistics(folder)
    live, number = folder.live(), client_number(folder, gone.client)
    counting = [name for names in statistics_in_force(folder, live).values() for name in names]
    for name in counting:  # without a training, too, none is made of what the run does not know
        if name.client == number:
            (folder.path / name.file).unlink()
    renew_statistics(folder)
    assert number in {
        name.client for names in missing_statistics(folder, folder.live()).values() for name in names
    }
    retrained = train(config, tmp_path / "run", Quiet(), recover)
    found = statistics_in_force(retrained, retrained.live())
    records = retrained.description.clients[number].records
    assert {
        note.records
        for names in found.values()
        for name in names
        if name.client == number and (note := note_of(retrained, name))
    } == {sum(records)}
    assert verify(retrained).passed


def in_one_group(images: World, prepared: Prepared) -> tuple[Row, Row]:
    """Return records of two clients in one group."""
    first, *others = images.inside(prepared, 0)
    return first, next(row for row in others if row.client != first.client)


def client_number(folder: RunFolder, name: str) -> int:
    return [client.name for client in folder.description.clients].index(name)


def test_a_client_with_too_many_records_for_a_sum_is_refused_by_name(
    bare: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_statistics, "most_of_a_client", lambda clients, bits: 0)
    told: list[Event] = []
    assert renew_statistics(bare, told.append) == 0
    troubles = [event for event in told if isinstance(event, ClientTrouble)]
    assert {event.client for event in troubles} == {"c0", "c1", "c2", "c3"}
    assert "sums of 16 bits could overflow" in troubles[0].what


def test_statistics_of_a_module_that_was_trained_again_otherwise_are_made_anew(
    trained: Path, tmp_path: Path
) -> None:
    """Its key is the same, and a sum of the old features must neither serve nor be divided."""
    folder = open_run(shutil.copytree(trained, tmp_path / "run"))
    root = next(entry for entry in folder.description.modules if entry.groups == [0])
    train_otherwise(folder, root.key)
    above = {entry.key for entry in folder.description.modules if entry.groups[0] == 0}
    before = statistics(folder.path)
    folder = train(folder.config, folder.path, Quiet())
    after = statistics(folder.path)
    assert {name.split("/")[1] for name, data in after.items() if before[name] != data} == above
    shutil.rmtree(folder.path / "statistics")
    assert renew_statistics(folder) == 40
    assert statistics(folder.path) == after


def test_what_a_stopped_build_made_is_told(bare: RunFolder) -> None:
    def stop(event: Event) -> None:
        if isinstance(event, StatisticsMade) and event.made == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        renew_statistics(bare, stop)
    told = [entry.body for entry in bare.ledger.entries() if entry.kind == Kind.STATISTICS]
    assert told[-1] == {"statistics": 3}


def test_records_that_a_description_does_not_have_end_their_statistics(images: World, tmp_path: Path) -> None:
    """Also if the training is stopped right after it: nothing of records that left may serve on."""
    source = tmp_path / "data"
    write_rows(source, images.rows, "image")
    config = images.config("heads.solve=true", f"data.source={source}")
    folder = train(config, tmp_path / "run", Quiet())
    gone, asked = in_one_group(images, prepare(config))
    unlearn(folder, [Deletion(asked.client, records=(asked.id,))])
    renew_statistics(folder)
    shutil.rmtree(source)
    write_rows(source, images.without([gone]).rows, "image")
    with folder.locked():
        bring_up_to_date(folder, recover)
    counting = statistics_in_force(folder, folder.live())
    numbers = {name.client for names in counting.values() for name in names}
    assert numbers == set(range(4)) - {client_number(folder, gone.client)}
    # Those of the client that asked were made without its record, and are as the description says.
    last = folder.ledger.entries()[-1]
    assert (last.kind, last.body["statistics"]) == (Kind.STATISTICS, sum(map(len, counting.values())))
