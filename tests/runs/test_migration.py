"""Runs of format 1 get registers when they are first opened, and work as before until they can."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_world import World, write_rows

from fedsgt.build.prepare import describe, prepare
from fedsgt.data.sources.rewrite import rewrite_file
from fedsgt.errors import InputError
from fedsgt.ledger.kinds import Kind
from fedsgt.runs.description import Description
from fedsgt.runs.folder import RunFolder, create_run, open_run
from fedsgt.runs.register import Registers
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn


@pytest.fixture
def data(images: World, tmp_path: Path) -> Path:
    return write_rows(tmp_path / "data", images.rows, "image")


def older_run(world: World, data: Path, path: Path) -> RunFolder:
    """Make a run as a version before registers made it; it is migrated when it is opened again."""
    config = world.config(f"data.source={data}")
    made: Description = describe(prepare(config)).model_copy(update={"format": 1})
    return create_run(path, config, made)


def test_opening_it_once_gives_it_registers(images: World, data: Path, tmp_path: Path) -> None:
    older_run(images, data, tmp_path / "run")
    folder = open_run(tmp_path / "run")
    description = folder.live().description
    assert description.format == 2
    registers = Registers(folder.path, description)
    for row in images.rows:
        number = [client.name for client in description.clients].index(row.client)
        register = registers.of(number)
        assert register is not None
        assert row.id in register
    kinds = [entry.kind for entry in open_run(tmp_path / "run").ledger.entries()]
    assert kinds == [Kind.OPENED, Kind.REBUILT]


def test_without_its_source_it_opens_and_gets_them_later(images: World, data: Path, tmp_path: Path) -> None:
    file = data / "train.parquet"
    hidden = tmp_path / "hidden.parquet"
    config = images.config(f"data.source={data}")
    made = describe(prepare(config)).model_copy(update={"format": 1})
    file.rename(hidden)
    folder = create_run(tmp_path / "run", config, made)
    assert folder.live().description.format == 1
    unlearn(folder, [Deletion("c1", slices=(0,))])
    hidden.rename(file)
    again = open_run(tmp_path / "run")
    assert again.live().description.format == 2
    record = next(row.id for row in images.rows if row.client == "c2")
    assert unlearn(again, [Deletion("c2", records=(record,))]).records == 1


@pytest.mark.parametrize("partition", ["iid", "given"])
def test_a_source_that_changed_gives_no_registers(
    images: World, data: Path, tmp_path: Path, partition: str
) -> None:
    """Dealt anew, records would be registered with the wrong clients, and deleted from the wrong groups."""
    config = images.config(f"data.source={data}", f"data.partition={partition}")
    made = describe(prepare(config)).model_copy(update={"format": 1})
    gone = images.rows[0].id
    rewrite_file(data / "train.parquet", "id", [gone])
    folder = create_run(tmp_path / "run", config, made)
    assert folder.live().description.format == 1
    client = "c0" if partition == "given" else "client-0"
    with pytest.raises(InputError, match="its records changed since this run was made"):
        unlearn(folder, [Deletion(client, records=(images.rows[4].id,))])
    assert unlearn(folder, [Deletion(client)]).records


def test_a_run_that_cannot_be_migrated_opens(images: World, data: Path, tmp_path: Path) -> None:
    config = images.config(f"data.source={data}")
    made = describe(prepare(config)).model_copy(update={"format": 1})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunFolder, "describe_anew", refused)
        folder = create_run(tmp_path / "run", config, made)
    assert folder.live().description.format == 1
    assert open_run(tmp_path / "run").live().description.format == 2


def refused(*_: object) -> None:
    raise InputError("a symbolic link is in the way")
