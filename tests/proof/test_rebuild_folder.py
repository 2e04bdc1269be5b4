"""The folder of a rebuild: retained records of the wanted groups are in it, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_deletions import record_in
from tiny_world import World, started

from fedsgt.data import group_fingerprint
from fedsgt.proof.rebuild_folder import read_notes, read_retained, write_retained
from fedsgt.runs.artefacts import BARE
from fedsgt.runs.folder import RunFolder, read_run
from fedsgt.runs.statistics import StatisticName
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn


@pytest.fixture
def folder(images: World, tmp_path: Path) -> RunFolder:
    """A run before its training: no module is needed to write the folder."""
    return started(tmp_path / "run", images.config())[1]


def written(folder: RunFolder, path: Path, *prefixes: tuple[int, ...]) -> RunFolder:
    """Return the folder that is written for the modules of these prefixes."""
    path.mkdir()
    live = folder.live()
    modules = [entry for entry in live.description.modules if tuple(entry.groups) in prefixes]
    write_retained(path, folder, live, modules, {entry.key: [["c0"], []] for entry in modules})
    return read_run(path)


def ids_in(folder: RunFolder) -> set[str]:
    return {record.id for client in read_retained(folder).local for record in client.records}


def bytes_below(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file())


def test_the_records_of_the_wanted_groups_are_there_and_no_others(
    images: World, folder: RunFolder, tmp_path: Path
) -> None:
    found = written(folder, tmp_path / "again", (0,), (0, 1))
    known = folder.description
    wanted = {
        (client, index)
        for client, groups in enumerate(known.groups_of)
        for index, group in enumerate(groups)
        if group in (0, 1)
    }
    clients = read_retained(found).local
    assert [client.name for client in clients] == [client.name for client in known.clients]
    for number, client in enumerate(clients):
        for index, size in enumerate(client.slice_sizes()):
            assert size == (known.clients[number].records[index] if (number, index) in wanted else 0)
    # The groups' fingerprints, and with them the modules' keys, are those of the run.
    for group in (0, 1):
        fingerprints = [
            clients[client].fingerprints()[index] for client, index in known.grouping_made().slice_ids(group)
        ]
        assert group_fingerprint(fingerprints) == known.group_fingerprints[group]
    data, here = bytes_below(found.path), ids_in(found)
    for row in images.rows:
        assert isinstance(row.content, bytes)
        assert (row.id.encode() in data, row.content in data) == (row.id in here, row.id in here)


def test_a_deleted_record_is_nowhere_in_the_folder(images: World, folder: RunFolder, tmp_path: Path) -> None:
    """Also if a module of its group is asked for: whoever trains it again must not see the record."""
    client, record = record_in(images, folder, 1)
    whole = ids_in(written(folder, tmp_path / "before", (1,)))
    unlearn(folder, [Deletion(client, records=(record,))])
    found = written(folder, tmp_path / "after", (1,))
    assert ids_in(found) == whole - {record}
    (row,) = (row for row in images.rows if row.id == record)
    assert isinstance(row.content, bytes)
    data = bytes_below(found.path)
    assert record.encode() not in data
    assert row.content not in data


def test_the_folder_names_no_place_of_the_run(folder: RunFolder, tmp_path: Path) -> None:
    """So that the rebuild cannot read anything else, such as modules or the original source."""
    found = written(folder, tmp_path / "again", (2,))
    data = bytes_below(found.path)
    for place in (folder.config.data.source, str(folder.path)):
        assert place.encode() not in data
    config = folder.config
    assert (found.config.training, found.config.peft, found.config.model) == (
        config.training,
        config.peft,
        config.model,
    )
    assert found.config.data.seed == config.data.seed


def test_the_description_wants_these_modules_only(folder: RunFolder, tmp_path: Path) -> None:
    wanted = [(0,), (0, 1), (2,), (2, 0), (2, 0, 1), (1,)]
    found = written(folder, tmp_path / "again", *wanted).description
    assert {tuple(entry.groups) for entry in found.modules} == set(wanted)
    assert sorted(found.sequences) == [[0, 1], [1], [2, 0, 1]]
    assert {entry.key for entry in found.modules} == {folder.description.keys[prefix] for prefix in wanted}


def test_notes_say_who_took_part_in_each_round(folder: RunFolder, tmp_path: Path) -> None:
    notes = read_notes(written(folder, tmp_path / "again", (0,)))
    assert notes.took_part == {folder.description.keys[0,]: [["c0"], []]}
    # Records that are here are left out of the folder itself; only remote clients are told of deletions.
    assert notes.erased == {}
    assert notes.statistics == ()


def test_a_client_with_statistics_gives_its_records_of_all_groups(
    images: World, folder: RunFolder, tmp_path: Path
) -> None:
    """Statistics are made of all retained records; deleted ones are nowhere in the folder all the same."""
    client, record = record_in(images, folder, 1)
    unlearn(folder, [Deletion(client, records=(record,))])
    live, number = folder.live(), [entry.name for entry in folder.description.clients].index(client)
    wanted = [StatisticName(BARE, number, live.mark_of(number))]
    path = tmp_path / "again"
    path.mkdir()
    write_retained(path, folder, live, (), {}, wanted)
    found = read_run(path)
    assert read_notes(found).statistics == tuple(wanted)
    own = {row.id for row in images.rows if row.client == client}
    assert ids_in(found) == own - {record}
    (row,) = (row for row in images.rows if row.id == record)
    assert isinstance(row.content, bytes)
    data = bytes_below(found.path)
    assert record.encode() not in data
    assert row.content not in data


def test_the_hash_of_a_file_of_records_tells_nothing_of_them(folder: RunFolder, tmp_path: Path) -> None:
    """A certificate may have it, if a deletion destroyed the folder: the same records give another hash."""
    one, two = (written(folder, tmp_path / name, (0,)).path / "records" for name in ("one", "two"))
    assert [path.name for path in one.iterdir()]
    assert all(path.read_bytes() != (two / path.name).read_bytes() for path in one.iterdir())
