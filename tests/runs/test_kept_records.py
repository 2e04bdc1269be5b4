"""Records that were given in memory: kept in the run's folder, read again, and taken out by deletions."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedsgt.config import Config
from fedsgt.data import Client, Record
from fedsgt.errors import InputError
from fedsgt.runs.kept_records import (
    IN_RUN,
    drop_kept,
    holds_deleted,
    kept_in,
    located,
    read_kept,
    read_kept_test,
    split_rows,
    unlocated,
    write_kept,
)
from fedsgt.runs.state import DeletedData

TEXTS = [Record(f"t{number}", (f"text number {number:02d}", "b"), number % 3) for number in range(20)]
IMAGES = [Record(f"i{number}", (b"\x00image %d" % number,), 1) for number in range(5)]


def client(records: list[Record]) -> Client:
    return Client.simulated("a", records, 3, 0)


@pytest.mark.parametrize("records", [TEXTS, IMAGES])
def test_records_are_read_as_they_were_written(records: list[Record], tmp_path: Path) -> None:
    write_kept(tmp_path, {2: client(records)}, records[:2])
    assert tuple(read_kept(tmp_path, 2)) == client(records).records
    assert read_kept_test(tmp_path) == records[:2]
    assert (tmp_path / "records").stat().st_mode & 0o777 == 0o700


def test_nothing_of_deleted_records_is_left_in_the_bytes(tmp_path: Path) -> None:
    made = client(TEXTS)
    write_kept(tmp_path, {0: made})
    file = tmp_path / "records" / "0.parquet"
    index = made.slice_of("t7")
    deleted = DeletedData(frozenset({index}), frozenset({made.hash_of("t3")}))
    gone = {"t3", *(record.id for record in made.cut()[index])}
    assert holds_deleted(file, deleted)
    left, stands_for = split_rows(file.read_bytes(), {0: deleted})
    assert left is not None
    for record in TEXTS:
        for text in (str(record.content[0]).encode(), made.hash_of(record.id).encode()):
            assert (text in left) is (record.id not in gone), record.id
    assert stands_for.decode().split() == sorted(map(made.hash_of, gone))
    file.write_bytes(left)
    assert not holds_deleted(file, deleted)
    assert [record.id for record in read_kept(tmp_path, 0)] == [
        record.id for record in made.records if record.id not in gone
    ]


def test_other_clients_deletions_take_nothing(tmp_path: Path) -> None:
    made = client(TEXTS)
    write_kept(tmp_path, {0: made})
    data = (tmp_path / "records" / "0.parquet").read_bytes()
    left, stands_for = split_rows(data, {1: DeletedData(frozenset({0, 1, 2}))})
    assert (left, stands_for) == (data, b"")


def test_the_file_of_nobody_goes_as_a_whole(tmp_path: Path) -> None:
    """Such as that of a client whose coming back was cut short."""
    write_kept(tmp_path, {7: client(TEXTS[:1])})
    data = (tmp_path / "records" / "7.parquet").read_bytes()
    left, stands_for = split_rows(data, {}, lambda number: number < 7)
    assert (left, stands_for.decode()) == (None, client(TEXTS).hash_of("t0"))


def test_a_client_may_lose_everything(tmp_path: Path) -> None:
    write_kept(tmp_path, {0: client(IMAGES)})
    file = tmp_path / "records" / "0.parquet"
    left, _ = split_rows(file.read_bytes(), {0: DeletedData(frozenset({0, 1, 2}))})
    assert left is not None
    file.write_bytes(left)
    assert read_kept(tmp_path, 0) == []
    assert b"image" not in file.read_bytes()


def test_missing_and_damaged_files_say_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"0\.parquet: records that this run keeps are missing; restore"):
        read_kept(tmp_path, 0)
    write_kept(tmp_path, {0: client(TEXTS)})
    file = tmp_path / "records" / "0.parquet"
    file.write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"0\.parquet: damaged .*restore it"):
        read_kept(tmp_path, 0)
    # Nobody can tell what is in it, so it may hold deleted records.
    assert holds_deleted(file, DeletedData())
    drop_kept(tmp_path, 0)
    assert not file.exists()


def test_the_place_is_in_the_configuration_only_while_it_is_in_memory(tmp_path: Path) -> None:
    plain = Config()
    assert located(plain, tmp_path) is plain
    assert unlocated(plain) is plain
    assert kept_in(plain) is None
    kept = plain.model_copy(update={"data": plain.data.model_copy(update={"source": IN_RUN})})
    assert kept_in(kept) is None
    assert kept_in(located(kept, tmp_path)) == tmp_path
    assert unlocated(located(kept, tmp_path)) == kept
