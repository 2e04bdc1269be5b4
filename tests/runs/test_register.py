"""Registers: what a run learnt from is known by it for good (definition 12)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tiny_deletions import problems
from tiny_world import Quiet, World, made, trained, write_rows

from fedsgt.build.train import train
from fedsgt.config import Config
from fedsgt.data.sources.rewrite import rewrite_file
from fedsgt.errors import InputError
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.runs.records import load_run_clients
from fedsgt.runs.register import Register, Registers, register_path
from fedsgt.unlearning.rejoin import rejoin
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import recover, unlearn


@pytest.fixture
def data(images: World, tmp_path: Path) -> Path:
    return write_rows(tmp_path / "data", images.rows, "image")


@pytest.fixture
def folder(images: World, data: Path, tmp_path: Path) -> RunFolder:
    trained(tmp_path / "run", config(images, data))
    return open_run(tmp_path / "run")


def config(world: World, data: Path, *overrides: str) -> Config:
    return world.config(f"data.source={data}", *overrides)


def first_of(world: World, client: str) -> str:
    return next(row.id for row in world.rows if row.client == client)


def held(folder: RunFolder) -> dict[str, set[str]]:
    """Return the ids that each client has in the run."""
    live = folder.live()
    clients = load_run_clients(folder, live.description, live.deleted).local
    return {client.name: {record.id for record in client.records} for client in clients}


def test_only_hashes_under_a_salt_of_its_own_are_kept() -> None:
    ids = [f"patient-{number}" for number in range(100)]
    one, other = Register.of("a", ids), Register.of("a", ids)
    assert len(one) == 100
    assert all(name in one for name in ids)
    assert "patient-100" not in one
    assert one.salt != other.salt
    assert one.ids != other.ids, "the salt follows from no seed"
    assert b"patient-7" not in one.to_bytes()


def test_only_the_owner_can_read_it(folder: RunFolder) -> None:
    for number in range(len(folder.description.clients)):
        assert register_path(folder.path, number).stat().st_mode & 0o777 == 0o600
    assert register_path(folder.path, 0).parent.stat().st_mode & 0o777 == 0o700


def test_a_record_that_left_the_source_can_be_deleted(images: World, data: Path, folder: RunFolder) -> None:
    """Its owner took it out of the file, or another run did: the run still serves it until it is deleted."""
    record = first_of(images, "c2")
    rewrite_file(data / "train.parquet", "id", [record])
    before = folder.present()
    receipt = unlearn(folder, [Deletion("c2", records=(record,))])
    assert receipt.records == 1
    assert receipt.destroyed > 0
    assert len(folder.present()) < len(before)
    with pytest.raises(InputError, match="was deleted before, by request no"):
        unlearn(folder, [Deletion("c2", records=(record,))])
    assert problems(folder) == []
    # Training goes on without it, to the bytes of a run that never had it.
    train(folder.config, folder.path, Quiet(), recover)
    never = images.without([row for row in images.rows if row.id == record])
    other = write_rows(data.parent / "other", never.rows, "image")
    assert made(open_run(folder.path)) == trained(data.parent / "never", config(images, other))


def test_a_record_that_the_run_never_had_is_refused(images: World, data: Path, folder: RunFolder) -> None:
    head = folder.ledger.head()
    add_row(images, data, "new-1", "c2")
    with pytest.raises(
        InputError, match="client c2: it never registered a record 'new-1'; nothing was changed"
    ):
        unlearn(folder, [Deletion("c2", records=("new-1",))])
    assert folder.ledger.head() == head


def add_row(world: World, data: Path, name: str, client: str) -> None:
    more = replace(world.rows[0], id=name, client=client)
    write_rows(data.parent / f"with-{name}", [*world.rows, more], "image")
    (data.parent / f"with-{name}" / "train.parquet").replace(data / "train.parquet")


@pytest.mark.parametrize("owner", ["c2", "nobody"])
def test_rows_that_come_later_are_not_part_of_the_run(
    owner: str, images: World, data: Path, folder: RunFolder
) -> None:
    before, modules = held(folder), made(folder)
    add_row(images, data, "new-1", owner)
    assert held(folder) == before
    unlearn(folder, [Deletion("c0", records=(first_of(images, "c0"),))])
    train(folder.config, folder.path, Quiet(), recover)
    after = made(open_run(folder.path))
    assert any(after[groups] == module for groups, module in modules.items()), "some were kept"
    assert "new-1" not in set().union(*held(folder).values())


@pytest.mark.parametrize("limit", [None, 30])
def test_simulated_clients_keep_their_records_when_rows_come_and_go(
    limit: int | None, images: World, data: Path, tmp_path: Path
) -> None:
    """Dealing anew would give every client other records."""
    limits = [] if limit is None else [f"data.limit={limit}"]
    run = config(images, data, "data.partition=iid", *limits)
    trained(tmp_path / "run", run)
    folder = open_run(tmp_path / "run")
    before = held(folder)
    gone = sorted(before["client-1"])[0]
    add_row(images, data, "new-1", "c0")
    rewrite_file(data / "train.parquet", "id", [gone])
    assert held(folder) == {name: ids - {gone} for name, ids in before.items()}
    unlearn(folder, [Deletion("1", records=(gone,))])
    train(folder.config, folder.path, Quiet(), recover)
    assert problems(open_run(folder.path)) == []


def test_a_client_that_came_back_has_a_register_of_its_own(
    images: World, folder: RunFolder, tmp_path: Path
) -> None:
    rows = [replace(row, id=f"new-{row.id}") for row in images.rows[:6]]
    source = write_rows(tmp_path / "new", rows, "image") / "train.parquet"
    rejoin(folder, "c1", source, 1, 1, Quiet())
    folder = open_run(folder.path)
    register = Registers(folder.path, folder.description).of(4)
    assert register is not None
    assert rows[0].id in register
    rewrite_file(source, "id", [rows[0].id])
    assert unlearn(folder, [Deletion("c1", records=(rows[0].id,))]).records == 1


def test_a_changed_register_is_refused_and_slices_can_still_be_deleted(
    images: World, folder: RunFolder
) -> None:
    path = register_path(folder.path, 2)
    path.write_bytes(Register.of("c2", ["somebody"]).to_bytes())
    with pytest.raises(InputError, match="not the register that this run was made with; restore it"):
        unlearn(folder, [Deletion("c2", records=(first_of(images, "c2"),))])
    assert unlearn(folder, [Deletion("c2", slices=(0,))]).records


def test_row_numbers_say_nothing_once_rows_moved(images: World, data: Path, tmp_path: Path) -> None:
    """A deleted row could come back under another's number."""
    run = config(images, data, "data.id_column=#row")
    trained(tmp_path / "run", run)
    folder = open_run(tmp_path / "run")
    unlearn(folder, [Deletion("c0", slices=(0,))])
    rewrite_file(data / "train.parquet", "id", [row.id for row in images.rows[:4]])
    with pytest.raises(InputError, match="its number of rows changed"):
        train(folder.config, folder.path, Quiet(), recover)


def test_a_slice_can_be_deleted_whatever_was_counted(images: World, data: Path, folder: RunFolder) -> None:
    """Counts are too low once records left the source; the slice must be noted all the same."""
    client = load_run_clients(folder, folder.description).local[0]
    ids = [record.id for record in client.cut()[0]]
    unlearn(folder, [Deletion("c0", records=(ids[0],))])
    rewrite_file(data / "train.parquet", "id", [ids[1]])
    folder = train(folder.config, folder.path, Quiet(), recover)
    unlearn(folder, [Deletion("c0", records=tuple(ids[1:-1]))])
    unlearn(folder, [Deletion("c0", slices=(0,))])
    folder = train(folder.config, folder.path, Quiet(), recover)
    assert ids[-1] not in held(folder)["c0"]
