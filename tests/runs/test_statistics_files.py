"""Statistics as files: their names, notes and damage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from paper_run import delete, describe, fill, paper_run

from fedsgt.files.tensors import tensor_hash
from fedsgt.runs.artefacts import BARE
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.state import NOTHING_DELETED
from fedsgt.runs.statistics import (
    StatisticName,
    discard_all,
    discard_damaged,
    note_of,
    present_statistics,
    read_statistic,
    statistic_tensors,
    statistics_in_force,
    write_statistic,
)
from fedsgt.stack import profile
from fedsgt.stack.statistics import Statistic
from fedsgt.store import Folder, StoreError

FIRST = StatisticName(BARE, 0, NOTHING_DELETED.mark)
SECOND = StatisticName(BARE, 1, NOTHING_DELETED.mark)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = paper_run(tmp_path / "run", describe([(0, 1, 2), (2, 0, 1)], [5, 5, 5]))
    fill(made)
    for name in (FIRST, SECOND):
        write_statistic(made, name, some())
    return made


def some() -> Statistic:
    return Statistic.of(np.arange(6, dtype=np.float32).reshape(3, 2), [0, 1, 1], 2, 16)


def test_a_statistic_is_read_as_it_was_written(folder: RunFolder) -> None:
    read, note = read_statistic(folder, FIRST), note_of(folder, FIRST)
    assert read is not None
    assert note is not None
    assert tensor_hash(statistic_tensors(read)) == tensor_hash(statistic_tensors(some())) == note.sha256
    assert (note.records, note.machine) == (3, profile.machine())
    assert StatisticName.of_file(folder.path / FIRST.file) == FIRST


@pytest.mark.parametrize("length", [0, 7, 40, -8, -1])
def test_a_damaged_one_counts_as_missing_until_it_is_removed(folder: RunFolder, length: int) -> None:
    file = folder.path / FIRST.file
    file.write_bytes(file.read_bytes()[:length])
    assert read_statistic(folder, FIRST) is None
    assert note_of(folder, FIRST) is None
    assert discard_damaged(folder) == 1
    assert present_statistics(folder) == {SECOND}
    assert discard_damaged(folder) == 0


def test_one_that_is_too_long_is_damaged(folder: RunFolder) -> None:
    with (folder.path / FIRST.file).open("ab") as file:
        file.write(b"\0")
    assert note_of(folder, FIRST) is None
    assert discard_damaged(folder) == 1


@pytest.mark.parametrize("header", [b"[]", b"{}", b'{"a": {"data_offsets": []}}', b'{"a": 1}', b"{"])
def test_headers_that_say_nothing(folder: RunFolder, header: bytes) -> None:
    (folder.path / FIRST.file).write_bytes(len(header).to_bytes(8, "little") + header)
    assert note_of(folder, FIRST) is None


def test_a_changed_bit_is_damage_that_no_header_shows(folder: RunFolder) -> None:
    file = folder.path / SECOND.file
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert note_of(folder, SECOND) is not None
    assert discard_damaged(folder) == 1
    assert present_statistics(folder) == {FIRST}


def test_one_of_a_client_that_deletes_stops_counting_and_is_destroyed(folder: RunFolder) -> None:
    delete(folder, 0)
    assert statistics_in_force(folder, folder.live()) == {BARE: [SECOND]}
    assert present_statistics(folder) == {SECOND}


def test_all_can_be_removed(folder: RunFolder) -> None:
    discard_all(folder)
    assert present_statistics(folder) == set()
    assert folder.present()


def test_one_that_cannot_be_read_just_now_is_kept(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that is gone would not send it again."""

    def fail(place: Folder, name: str) -> bytes:
        raise StoreError(f"cannot read {name}: Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "read", fail)
        assert read_statistic(folder, FIRST) is None
        assert discard_damaged(folder) == 0
    assert present_statistics(folder) == {FIRST, SECOND}
