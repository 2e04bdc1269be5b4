"""The clients' own data: taken out of their files, or left out by all who read them."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest
from tiny_deletions import problems
from tiny_world import Quiet, World, trained, write_rows

from fedsgt.build.train import train
from fedsgt.certificates.certify import certificate_path
from fedsgt.config import Config
from fedsgt.data import derive_salt, load_dataset, record_hash
from fedsgt.errors import InputError
from fedsgt.files.encoding import frames
from fedsgt.runs import records
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.runs.records import load_clients
from fedsgt.unlearning import recovery
from fedsgt.unlearning.erase import SourceReader, sources, why_left
from fedsgt.unlearning.rejoin import rejoin
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import accept, complete, recover, unlearn


def config(world: World, data: Path, *overrides: str) -> Config:
    return world.config(f"data.source={data}", "data.erase=rewrite", *overrides)


def ids_in(data: Path) -> set[str]:
    return set(pq.read_table(data / "train.parquet").column("id").to_pylist())


@pytest.fixture
def data(images: World, tmp_path: Path) -> Path:
    return write_rows(tmp_path / "data", images.rows, "image")


@pytest.fixture
def folder(images: World, data: Path, tmp_path: Path) -> RunFolder:
    trained(tmp_path / "run", config(images, data))
    return open_run(tmp_path / "run")


def test_deleted_records_leave_their_file_and_nothing_else_does(
    images: World, data: Path, folder: RunFolder
) -> None:
    row = next(row for row in images.rows if row.client == "c2")
    before = pq.read_table(data / "train.parquet")
    answer = unlearn(folder, [Deletion("c2", records=(row.id,))])
    after = pq.read_table(data / "train.parquet")
    assert after.schema.equals(before.schema, check_metadata=True)
    assert after.to_pylist() == [entry for entry in before.to_pylist() if entry["id"] != row.id]
    assert isinstance(row.content, bytes)
    assert row.content not in (data / "train.parquet").read_bytes()
    assert answer.certificate is not None
    assert '"kind": "source"' in answer.certificate.read_text()
    assert problems(folder) == []
    assert not list(data.glob(".*"))


def test_training_goes_on_without_them_to_the_same_bytes(
    images: World, data: Path, folder: RunFolder
) -> None:
    """A whole client is gone from the file, and one record of another."""
    row = next(row for row in images.rows if row.client == "c2")
    gone = [row, *(other for other in images.rows if other.client == "c1")]
    unlearn(folder, [Deletion("c1")])
    unlearn(folder, [Deletion("c2", records=(row.id,))])
    assert ids_in(data) == {other.id for other in images.rows if other not in gone}
    again = train(config(images, data), folder.path, Quiet())
    kept = {tuple(e.groups): again.modules.manifest(e.key).sha256 for e in again.description.modules}
    other = data.parent / "tombstone"
    trained(other, images.config())
    marked = open_run(other)
    unlearn(marked, [Deletion("c1")])
    unlearn(marked, [Deletion("c2", records=(row.id,))])
    same = train(images.config(), other, Quiet())
    assert kept == {tuple(e.groups): same.modules.manifest(e.key).sha256 for e in same.description.modules}


def test_where_a_file_is_not_written(images: World, data: Path, tmp_path: Path) -> None:
    """Simulated clients, row numbers and limits depend on the whole; a read-only file cannot be."""
    cases = {
        "iid": ["data.partition=iid"],
        "tombstone": ["data.erase=tombstone"],
        "limit": ["data.limit=40"],
        "row": ["data.id_column=#row"],
    }
    from fedsgt.build.prepare import describe, prepare
    from fedsgt.runs.folder import create_run

    for name, overrides in cases.items():
        run = config(images, data, *overrides)
        made = create_run(tmp_path / name, run, describe(prepare(run)))
        assert why_left(made, data / "train.parquet") is not None, name
    run = config(images, data)
    made = create_run(tmp_path / "given", run, describe(prepare(run)))
    assert sources(made, made.description) == {data / "train.parquet": {0, 1, 2, 3}}
    assert why_left(made, data / "train.parquet") is None


def test_a_simulated_client_is_left_out_by_whoever_reads(images: World, data: Path, tmp_path: Path) -> None:
    run = config(images, data, "data.partition=iid")
    trained(tmp_path / "run", run)
    folder = open_run(tmp_path / "run")
    before = (data / "train.parquet").read_bytes()
    unlearn(folder, [Deletion("0")])
    again = train(run, folder.path, Quiet())
    assert (data / "train.parquet").read_bytes() == before
    assert sum(again.description.clients[0].records) == 0
    for entry in again.description.modules:
        for took_part in again.modules.manifest(entry.key).participants:
            assert again.description.clients[0].name not in took_part


def test_a_file_of_which_nothing_is_left(
    images: World, data: Path, folder: RunFolder, tmp_path: Path
) -> None:
    """A file that lost the rows of all owners, and of one who came back, is empty and no error to read."""
    source = write_rows(tmp_path / "new", images.rows[:6], "image") / "train.parquet"
    rejoin(folder, "c1", source, 1, 1, Quiet())
    unlearn(folder, [Deletion("c1~2")])
    assert pq.read_table(source).num_rows == 0
    row = next(row for row in images.rows if row.client == "c2")
    unlearn(folder, [Deletion("c2", records=(row.id,))])
    again = train(config(images, data), folder.path, Quiet())
    assert problems(again) == []
    unlearn(again, [Deletion(name) for name in ("c0", "c1", "c2", "c3")])
    assert ids_in(data) == set()
    with pytest.raises(InputError, match="no record is left in any group"):
        train(config(images, data), folder.path, Quiet())


def test_a_link_leads_to_the_file_that_is_written(images: World, data: Path, tmp_path: Path) -> None:
    real = tmp_path / "elsewhere.parquet"
    (data / "train.parquet").rename(real)
    (data / "train.parquet").symlink_to(real)
    trained(tmp_path / "run", config(images, data))
    row = next(row for row in images.rows if row.client == "c2")
    unlearn(open_run(tmp_path / "run"), [Deletion("c2", records=(row.id,))])
    assert (data / "train.parquet").is_symlink()
    assert row.id not in pq.read_table(real).column("id").to_pylist()


def test_the_folders_of_a_file_stay_hidden(images: World, folder: RunFolder, tmp_path: Path) -> None:
    source = write_rows(tmp_path / "new", images.rows[:6], "image") / "train.parquet"
    (tmp_path / "alice").mkdir()
    place = source.rename(tmp_path / "alice" / "jones.parquet")
    rejoin(folder, "c1", place, 1, 1, Quiet())
    answer = unlearn(folder, [Deletion("c1~2")])
    assert answer.certificate is not None
    assert '"kind": "source"' in answer.certificate.read_text()
    for text in (answer.certificate.read_text(), str([entry.body for entry in folder.ledger.entries()])):
        assert "jones.parquet" in text
        assert "alice" not in text


def test_a_lost_file_of_one_client_stops_nobody_else(
    images: World, folder: RunFolder, tmp_path: Path
) -> None:
    source = write_rows(tmp_path / "new", images.rows[:6], "image") / "train.parquet"
    rejoin(folder, "c1", source, 1, 1, Quiet())
    source.unlink()
    row = next(row for row in images.rows if row.client == "c2")
    unlearn(folder, [Deletion("c2", records=(row.id,))])
    unlearn(folder, [Deletion("c3")])
    unlearn(folder, [Deletion("c1~2")])
    assert problems(folder) == []
    assert problems(train(folder.config, folder.path, Quiet())) == []


def test_a_damaged_file_is_named_also_if_another_process_completed_the_request(
    folder: RunFolder, data: Path
) -> None:
    (data / "train.parquet").write_bytes(b"damaged")
    receipt = accept(folder, [Deletion("c2")], key="k")
    recover(open_run(folder.path))
    assert complete(folder, receipt).unreadable == (data / "train.parquet",)
    assert unlearn(folder, [Deletion("c2")], key="k").unreadable == (data / "train.parquet",)


def test_a_file_belongs_to_one_enrolment(
    images: World, folder: RunFolder, data: Path, tmp_path: Path
) -> None:
    source = write_rows(tmp_path / "new", images.rows[:6], "image") / "train.parquet"
    rejoin(folder, "c1", source, 1, 1, Quiet())
    for taken in (source, data / "train.parquet"):
        with pytest.raises(InputError, match="records of this run are in it already"):
            rejoin(folder, "c1", taken, 1, 1, Quiet())


def test_a_new_run_leaves_out_what_another_has_deleted(images: World, data: Path, tmp_path: Path) -> None:
    """On a source that nobody writes; what is deleted later in the first changes nothing of the second."""
    run = config(images, data, "data.partition=iid")
    trained(tmp_path / "first", run)
    first = open_run(tmp_path / "first")
    gone = {record.id for record in load_clients(run).local[0].records}
    unlearn(first, [Deletion("0")])
    later = config(images, data, "data.partition=iid", f"data.erased=[{str(tmp_path / 'first')!r}]")
    second = train(later, tmp_path / "second", Quiet())
    seen = {record.id for client in load_clients(second.config).local for record in client.records}
    assert seen == {row.id for row in images.rows} - gone
    assert second.config.data.erased == [f"{tmp_path / 'first'}@{first.live().position}"]
    assert open_run(tmp_path / "second").config == second.config
    unlearn(first, [Deletion("1")])
    quiet = Quiet()
    train(second.config, tmp_path / "second", quiet)
    assert quiet.modules == []
    with pytest.raises(InputError, match=r"no such run"):
        train(config(images, data, "data.erased=['nowhere']"), tmp_path / "third", Quiet())


class Reading:
    """Counts how often the sources are read, and whether the run's store is locked meanwhile."""

    def __init__(
        self, folder: RunFolder, patch: pytest.MonkeyPatch, after: Callable[[], object] | None = None
    ) -> None:
        """`after` is called once, when the first source was read."""
        self.read: list[str] = []
        self.locked: list[str] = []
        waiting = [after] if after is not None else []

        def counted(source: str, *arguments: Any, **options: Any) -> Any:
            self.read.append(source)
            if _is_locked(folder.path / "store.lock"):
                self.locked.append(source)
            found = load_dataset(source, *arguments, **options)
            if waiting:
                waiting.pop()()
            return found

        patch.setattr(records, "load_dataset", counted)


def _is_locked(path: Path) -> bool:
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_a_deletion_reads_the_source_once_and_never_under_the_lock(
    images: World, data: Path, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = [row.id for row in images.rows if row.client == "c2"][:3]
    other = next(row.id for row in images.rows if row.client == "c3")
    reading = Reading(folder, monkeypatch)
    unlearn(folder, [Deletion("c2", records=(first,)), Deletion("c3", records=(other,))])
    assert (reading.read, reading.locked) == ([str(data)], [])
    unlearn(folder, [Deletion("c1")])
    assert (reading.read, reading.locked) == ([str(data)] * 2, [])
    assert problems(folder) == []
    assert (len(reading.read), reading.locked) == (3, [])
    accept(folder, [Deletion("c2", records=(second,))])
    assert len(recover(folder).completed) == 1
    assert (len(reading.read), reading.locked) == (4, []), "acceptance looks into the register"
    assert {first, second, other}.isdisjoint(ids_in(data))
    assert third in ids_in(data)


def test_each_source_of_a_client_that_came_back_is_read_once(
    images: World, data: Path, folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [replace(row, id=f"new-{row.id}") for row in images.rows[:6]]
    source = write_rows(tmp_path / "new", rows, "image") / "train.parquet"
    rejoin(folder, "c1", source, 1, 1, Quiet())
    reading = Reading(folder, monkeypatch)
    unlearn(folder, [Deletion("c1", records=(rows[0].id,))])
    assert sorted(reading.read) == sorted([str(data), str(source)])
    assert reading.locked == []
    assert rows[0].id not in pq.read_table(source).column("id").to_pylist()


def test_a_source_that_another_request_changes_meanwhile_is_read_again(
    images: World, data: Path, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each certificate lists exactly the records that its own request took out of the file."""
    mine, theirs = [row.id for row in images.rows if row.client == "c2"][:2]
    reading = Reading(folder, monkeypatch)
    reader = SourceReader(folder)
    receipt = accept(folder, [Deletion("c2", records=(mine,))], reader=reader)
    unlearn(open_run(folder.path), [Deletion("c2", records=(theirs,))])
    before = len(reading.read)
    other = accept(folder, [Deletion("c3")], reader=reader)
    done = complete(folder, other, reader=reader)
    assert len(reading.read) == before + 1
    assert reading.locked == []
    assert done.certificate is not None
    listed = json.loads(done.certificate.read_text())["body"]["destroyed"]
    salt = derive_salt(folder.config.data.seed, "c3")
    hashes = [record_hash(salt, "c3", row.id) for row in images.rows if row.client == "c3"]
    expected = hashlib.sha256(frames(*sorted(hashes))).hexdigest()
    assert [one["sha256"] for one in listed if one["kind"] == "source"] == [expected]
    assert receipt.position < other.position
    assert problems(folder) == []


@pytest.mark.parametrize("killed", [False, True])
def test_each_of_several_pending_requests_lists_its_own_records(
    killed: bool, images: World, data: Path, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the first was killed when its list was in the ledger, and the second came after that."""
    first, second = [row.id for row in images.rows if row.client == "c2"][:2]
    receipts = [accept(folder, [Deletion("c2", records=(first,))])]
    if killed:
        with monkeypatch.context() as patch:
            patch.setattr(recovery, "destroy", Mock(side_effect=KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                recover(folder)
    receipts.append(accept(folder, [Deletion("c2", records=(second,))]))
    assert recover(folder).completed == [receipt.position for receipt in receipts]
    assert {first, second}.isdisjoint(ids_in(data))
    salt = derive_salt(folder.config.data.seed, "c2")
    for receipt, record in zip(receipts, (first, second), strict=True):
        certificate = json.loads(certificate_path(folder, receipt.position).read_text())
        listed = [one["sha256"] for one in certificate["body"]["destroyed"] if one["kind"] == "source"]
        assert listed == [hashlib.sha256(frames(record_hash(salt, "c2", record))).hexdigest()]
    assert problems(folder) == []


def test_a_source_that_changes_right_after_it_was_read_is_read_again(
    images: World, data: Path, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept(folder, [Deletion("c2")])
    reading = Reading(folder, monkeypatch, after=lambda: os.utime(data / "train.parquet"))
    recover(folder)
    assert (reading.read, reading.locked) == ([str(data)] * 2, [])
    assert problems(folder) == []


def test_a_request_that_comes_while_sources_are_read_is_completed_with_the_others(
    images: World, data: Path, folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It needs a source that the first did not."""
    source = write_rows(tmp_path / "new", images.rows[:6], "image") / "train.parquet"
    rejoin(folder, "c1", source, 1, 1, Quiet())
    first = accept(folder, [Deletion("c2")])
    other: list[int] = []
    reading = Reading(
        folder,
        monkeypatch,
        after=lambda: other.append(accept(open_run(folder.path), [Deletion("c1~2")]).position),
    )
    assert recover(folder).completed == [first.position, *other]
    assert reading.locked == []
    assert pq.read_table(source).num_rows == 0
    assert problems(folder) == []


@pytest.mark.parametrize("damage", ["missing", "unreadable"])
def test_of_a_file_that_cannot_be_read_nothing_untrue_is_signed(
    images: World, data: Path, folder: RunFolder, damage: str
) -> None:
    """The rows are in it once it is back, so nobody may say that they are not."""
    file = data / "train.parquet"
    if damage == "missing":
        file.rename(data / "elsewhere.parquet")
    else:
        file.write_bytes(b"junk")
    answer = unlearn(folder, [Deletion("c2", slices=(0,))])
    (source,) = answer.sources
    words = "it is not there" if damage == "missing" else "it cannot be read: the rows may be in it"
    assert (source["action"], source["rows"]) == ("left", answer.records)
    assert source["reason"].startswith(words)
    assert answer.certificate is not None
    said = json.loads(answer.certificate.read_text())["body"]
    assert said["sources"] == [source]
    assert any("gone from the source file" in sentence for sentence in said["statement"]["not_proved"])


def test_what_lies_in_the_way_of_a_sweep_holds_up_nothing(data: Path, folder: RunFolder) -> None:
    (data / ".train.parquet.erasing").mkdir()
    answer = unlearn(folder, [Deletion("c2", slices=(0,))])
    assert answer.pending is None
    assert answer.certificate is not None
