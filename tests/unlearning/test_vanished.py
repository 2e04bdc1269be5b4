"""Records that left their source without being deleted from the run: the audit says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tiny_deletions import problems
from tiny_world import Quiet, World, trained, write_rows

from fedsgt.data.sources.rewrite import rewrite_file
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.unlearning.rejoin import rejoin
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn
from fedsgt.unlearning.vanished import vanished_records


def run_on(world: World, tmp_path: Path, *overrides: str) -> tuple[RunFolder, Path]:
    data = write_rows(tmp_path / "data", world.rows, "image")
    trained(tmp_path / "run", world.config(f"data.source={data}", *overrides))
    return open_run(tmp_path / "run"), data / "train.parquet"


@pytest.mark.parametrize("partition", ["given", "iid"])
@pytest.mark.parametrize("erase", ["tombstone", "rewrite"])
def test_the_audit_names_the_client_until_they_are_deleted(
    images: World, tmp_path: Path, partition: str, erase: str
) -> None:
    folder, file = run_on(images, tmp_path, f"data.partition={partition}", f"data.erase={erase}")
    client = "c2" if partition == "given" else "client-2"
    assert vanished_records(folder, folder.live()) == {}
    assert problems(folder) == []
    held = records_of(folder, client)
    unlearn(folder, [Deletion(client, records=(held[0],))])
    assert vanished_records(folder, folder.live()) == {}, "deleted, in the file or not"
    rewrite_file(file, "id", held[1:3])
    assert vanished_records(folder, folder.live()) == {client: 2}
    (found,) = problems(folder)
    assert found.name == f"client {client}"
    assert "2 records that modules depend on left the source" in str(found.problem)
    assert held[1] not in str(found), "no id is known here"
    unlearn(folder, [Deletion(client, records=tuple(held[1:3]))])
    assert problems(folder) == []


def records_of(folder: RunFolder, client: str) -> list[str]:
    from fedsgt.runs.records import load_run_clients

    clients = load_run_clients(folder, folder.live().description).local
    return [record.id for one in clients if one.name == client for record in one.records]


def test_a_client_that_came_back_has_a_file_of_its_own(images: World, tmp_path: Path) -> None:
    folder, _ = run_on(images, tmp_path)
    rows = [replace(row, id=f"new-{row.id}") for row in images.rows[:6]]
    source = write_rows(tmp_path / "new", rows, "image") / "train.parquet"
    rejoin(folder, "c1", source, 1, 1, Quiet())
    assert vanished_records(folder, folder.live()) == {}
    rewrite_file(source, "id", [rows[0].id])
    assert vanished_records(folder, folder.live()) == {"c1~2": 1}


def test_a_source_that_is_not_here_is_passed_over(images: World, tmp_path: Path) -> None:
    """An auditor may have the run's folder alone."""
    folder, file = run_on(images, tmp_path)
    file.unlink()
    assert vanished_records(folder, folder.live()) == {}
