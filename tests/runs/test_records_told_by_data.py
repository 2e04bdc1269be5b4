"""What the data tell of a new run, its clients and its test part, is settled when the run is made."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from record_files import write_as
from tiny_world import World, started, trained, write_rows

from fedsgt.build.prepare import prepare
from fedsgt.config import Config, load
from fedsgt.data.dataset import is_kept_for_test
from fedsgt.errors import InputError
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.runs.records import load_clients, load_run_clients, load_test

Read = Callable[[], dict[str, set[str]]]


def text_rows(owners: str = "abc", count: int = 60) -> list[dict[str, Any]]:
    return [
        {"id": f"r{i:02d}", "text": f"w{i % 12}", "label": i % 3, "site": owners[i % len(owners)]}
        for i in range(count)
    ]


def config(source: Path, *overrides: str) -> Config:
    given = [
        "data.partition=given",
        "data.client_column=site",
        "data.input_columns=['text']",
        "data.labels=3",
    ]
    return load(None, [f"data.source={source}", "model.task=text", *given, *overrides])


def held(folder: RunFolder) -> dict[str, set[str]]:
    clients = load_run_clients(folder, folder.description).local
    return {client.name: {record.id for record in client.records} for client in clients}


def test_owners_are_counted_in_the_training_part(tmp_path: Path) -> None:
    source = write_as("csv", tmp_path, text_rows())
    data = load_clients(config(source))
    assert [client.name for client in data.local] == ["a", "b", "c"]
    kept = {row["id"] for row in text_rows() if is_kept_for_test(row["id"], 0.2)}
    assert data.split_off == len(kept)
    assert kept.isdisjoint(record.id for client in data.local for record in client.records)
    assert {record.id for record in load_test(config(source)).records} == kept
    # A number that somebody gave is still checked.
    with pytest.raises(InputError, match=r"data\.clients is 4, but the records have 3 owners"):
        load_clients(config(source, "data.clients=4", "grouping.groups=3"))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (["grouping.slices=[1, 2]"], r"^grouping\.slices: 2 values for 3 clients; give one for each$"),
        (["grouping.limits=[1, 2]"], r"^grouping\.limits: 2 values for 3 clients; give one for each$"),
        (["grouping.slices=2"], r"^grouping\.groups: 10 is more than the 6 slices; at most 6$"),
        (
            ["grouping.method=updates"],
            r"^grouping\.groups: 10 clusters of 3 clients; with updates at most 3$",
        ),
    ],
)
def test_settings_are_checked_once_the_number_is_known(
    settings: list[str], problem: str, tmp_path: Path
) -> None:
    run = config(write_as("csv", tmp_path, text_rows()), *settings)
    with pytest.raises(InputError, match=problem):
        load_clients(run)


def test_a_source_without_records_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,text,label,site\n")
    with pytest.raises(InputError, match=r"x\.csv': there are no records to train on; allowed: "):
        load_clients(config(tmp_path / "x.csv"))


@pytest.fixture
def data(images: World, tmp_path: Path) -> Path:
    return write_rows(tmp_path / "data", images.rows, "image")


def test_a_lost_test_part_takes_no_records_of_the_clients(images: World, data: Path, tmp_path: Path) -> None:
    _, folder = started(tmp_path / "run", images.config(f"data.source={data}"))
    before = held(folder)
    (data / "test.parquet").unlink()
    again = open_run(tmp_path / "run")
    assert held(again) == before
    with pytest.raises(InputError, match="has no part test or validation; its parts: train"):
        load_test(again.config, 3)
    # A new run would keep some for testing.
    assert prepare(again.config.model_copy(update={"data": images.config(f"data.source={data}").data})).test


def test_a_test_part_that_comes_later_changes_no_client(images: World, data: Path, tmp_path: Path) -> None:
    (data / "test.parquet").rename(tmp_path / "test.parquet")
    trained(tmp_path / "run", images.config(f"data.source={data}", "data.clients="))
    before = held(open_run(tmp_path / "run"))
    shutil.copy(tmp_path / "test.parquet", data)
    folder = open_run(tmp_path / "run")
    assert held(folder) == before
    assert len(load_test(folder.config, 3)) == 6


def test_runs_of_earlier_versions_keep_no_records_for_testing(
    images: World, data: Path, tmp_path: Path
) -> None:
    started(tmp_path / "run", images.config(f"data.source={data}"))
    file = tmp_path / "run/run.toml"
    lines = [line for line in file.read_text().splitlines() if not line.startswith("test_share")]
    file.write_text("\n".join(lines))
    assert open_run(tmp_path / "run").config.data.test_share == 0


@pytest.mark.parametrize("change", ["last", "first", "more"])
def test_with_row_numbers_every_change_of_the_file_is_noticed(
    change: str, texts: World, tmp_path: Path
) -> None:
    """Rows that are kept for testing count too: without one of them, all others are called differently."""
    rows = [{"sentence": row.content, "label": row.label, "client": row.client} for row in texts.rows]
    while not is_kept_for_test(f"{len(rows) - 1:09d}", 0.2):
        rows = rows[:-1]  # as many rows are trained on with or without the last one
    source = write_as("csv", tmp_path, rows)
    trained(tmp_path / "run", texts.config(f"data.source={source}", "data.id_column=#row"))
    folder = open_run(tmp_path / "run")
    assert folder.description.rows == len(rows)
    assert sum(map(len, held(folder).values())) + load_clients(folder.config).split_off == len(rows)
    changed = {"last": rows[:-1], "first": rows[1:], "more": [*rows, rows[0]]}[change]
    write_as("csv", tmp_path, changed)
    with pytest.raises(InputError, match="its number of rows changed since this run was made"):
        held(folder)
