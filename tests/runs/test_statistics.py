"""Files of statistics: their names, which count, and damage."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_world import Quiet, World

from fedsgt.build.train import train
from fedsgt.runs.artefacts import BARE
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.runs.statistics import (
    StatisticName,
    counts_in,
    missing_statistics,
    most_of_a_client,
    note_of,
    present_statistics,
    read_statistic,
    records_behind,
    statistics_in_force,
    sum_of,
    wanted_chains,
    write_statistic,
)
from fedsgt.stack.statistics import most_records
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import accept


@pytest.fixture(scope="module")
def trained(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("statistics") / "run"
    train(images.config("heads.solve=true"), path, Quiet()).ledger.close()
    return path


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> RunFolder:
    return open_run(shutil.copytree(trained, tmp_path / "run"))


def test_a_name_says_what_a_file_is(folder: RunFolder) -> None:
    for name in present_statistics(folder):
        assert StatisticName.of_file(folder.path / name.file) == name
    assert StatisticName.of_file(folder.path / "statistics" / BARE / "test-00.safetensors") is None


def test_every_chain_has_one_of_each_client(folder: RunFolder) -> None:
    live = folder.live()
    assert wanted_chains(folder, live)[0] == ()
    assert len(wanted_chains(folder, live)) == 10
    assert len(present_statistics(folder)) == 40
    assert missing_statistics(folder, live) == {}
    assert records_behind(folder, statistics_in_force(folder, live)) == 48


def test_an_accepted_deletion_ends_those_of_its_client_before_anything_is_destroyed(
    folder: RunFolder,
) -> None:
    accept(folder, [Deletion("c0", slices=(0,))])
    live, there = folder.live(), present_statistics(folder)
    assert len(there) == 40, "nothing is destroyed yet"
    alive = {entry.key for entry in live.modules()} | {BARE}
    for name in there:
        assert counts_in(live, name) is (name.client != 0 and name.chain in alive)
    assert records_behind(folder, statistics_in_force(folder, live)) == 36
    missing = [name for names in missing_statistics(folder, live).values() for name in names]
    assert {name.client for name in missing} == {0}
    assert {name.chain for name in missing} == alive


def test_only_chains_that_serve_are_wanted_if_the_run_says_so(images: World, tmp_path: Path) -> None:
    folder = train(images.config("heads.solve=true", "heads.when=serve"), tmp_path / "run", Quiet())
    assert wanted_chains(folder, folder.live()) == [(), (0, 1, 2), (2, 0, 1), (1, 2, 0)]
    assert len(present_statistics(folder)) == 16


def test_a_damaged_file_is_as_if_it_were_not_there(folder: RunFolder) -> None:
    name = sorted(present_statistics(folder))[0]
    file = folder.path / name.file
    data = file.read_bytes()
    whole = read_statistic(folder, name)
    assert whole is not None
    for damaged in (data[:-8], data[:4], b"", data[:-1] + bytes([data[-1] ^ 1])):
        file.write_bytes(damaged)
        assert read_statistic(folder, name) is None
    file.unlink()
    assert (read_statistic(folder, name), note_of(folder, name)) == (None, None)


def test_a_sum_leaves_out_what_is_damaged_and_what_would_overflow(folder: RunFolder) -> None:
    names = [name for name in sorted(present_statistics(folder)) if name.chain == BARE]
    parts = [read_statistic(folder, name) for name in names]
    total, used = sum_of(folder, names)
    assert used == names
    assert total is not None
    assert total.records == sum(part.records for part in parts if part is not None)
    first, second = parts[:2]
    assert first is not None
    assert second is not None
    (folder.path / names[1].file).write_bytes(b"")
    most = most_records(first.bits)
    write_statistic(folder, names[2], replace(first, records=most - first.records + 1))
    total, used = sum_of(folder, names)
    assert used == [names[0], *names[3:]]
    assert sum_of(folder, names[1:2]) == (None, [])


def test_no_sum_over_as_many_clients_can_overflow() -> None:
    assert most_of_a_client(7, 16) * 7 <= most_records(16) < (most_of_a_client(7, 16) + 1) * 7
