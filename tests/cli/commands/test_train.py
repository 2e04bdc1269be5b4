"""`fedsgt train`, as a new user meets it: right input and wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import fedsgt, shown
from starter_run import SMALL


def test_the_same_command_finds_nothing_left_to_do(trained: Path) -> None:
    done = fedsgt("train", "my.toml", *SMALL, cwd=trained.parents[1])
    assert "0 trained now" in done.stdout


def test_progress_is_told_in_plain_lines_where_there_is_no_terminal(tmp_path: Path) -> None:
    fedsgt("init", "my.toml", cwd=tmp_path)
    lines = fedsgt("train", "my.toml", *SMALL, cwd=tmp_path).stderr.splitlines()
    assert lines[0] == "training 4 modules of 2 sequences, 1 round each"
    assert [line.split(":")[0] for line in lines[1:5]] == [
        f"module {number} of 4 (groups {groups})" for number, groups in enumerate(("0", "0 1", "1", "1 0"), 1)
    ]
    assert all("s left" in line for line in lines[1:5])
    # Four modules and the bare backbone, ten clients.
    assert lines[5] == "statistics for heads: 0 of 50"
    assert lines[-1] == "statistics for heads: 50 of 50"


def test_a_damaged_module_is_not_live_and_is_trained_again(tmp_path: Path) -> None:
    fedsgt("init", "my.toml", cwd=tmp_path)
    fedsgt("train", "my.toml", *SMALL, cwd=tmp_path)
    run = tmp_path / "runs" / "my"
    before = json.loads(shown("show", str(run), "--json"))["modules"]
    damaged = run / "modules" / before[1]["key"] / "module.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\x55")
    assert [m["live"] for m in json.loads(shown("show", str(run), "--json"))["modules"]] == [
        True,
        False,
        True,
        True,
    ]
    assert "1 trained now" in fedsgt("train", "my.toml", *SMALL, cwd=tmp_path).stdout
    assert json.loads(shown("show", str(run), "--json"))["modules"] == before


def test_metrics_are_lines_of_json(trained: Path) -> None:
    events = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    kinds = [event["event"] for event in events]
    assert kinds.count("module") == 4
    assert kinds.count("round") == 4
    updates = [event for event in events if event["event"] == "update"]
    assert {event["client"] for event in updates} <= {f"client-{number}" for number in range(10)}
    assert all(event["loss"] > 0 and event["records"] > 0 for event in updates)


WRONG_COMMANDS = [
    (("train", "none.toml"), "none.toml: no such file"),
    (("train", "my.toml", "-s", "peft.rnak=3"), "peft.rnak: unknown key; did you mean rank?"),
    (("train", "my.toml", "--engine", "ray"), "engine.name: 'ray' is not allowed"),
    (("train", "my.toml", "-s", "model.backbone=./none"), "model.backbone: './none' does not exist"),
    (("train", "my.toml", "-s", "model.device=cuda:7"), "model.device: 'cuda:7' is not on this machine"),
    (("train", "my.toml", "-s", "peft.layers=9"), "peft.layers: 9 is more than the model's"),
    (("train", "my.toml", "-s", "peft.targets=['nope']"), "peft.targets: 'nope' is no linear"),
    (("train", "my.toml", "-s", "data.source=./none.parquet"), "data.source './none.parquet' does not exist"),
    (("train", "my.toml", "-s", "data.limit=5"), "5 records are too few"),
    (("train", "my.toml", "-s", "grouping.slices=200"), "records are too few"),
    (("train", "my.toml", "-s", "data.partition=given"), "no owners"),
    (("show", "none"), "none: no such run"),
    (("show", "."), "not a run: it has no run.toml"),
    (("evaluate", "none"), "none: no such run"),
    (("export", "none", "--sequence", "0"), "none: no such run"),
    (("runs", "none"), "none: no such folder"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG_COMMANDS)
def test_wrong_input_is_one_line_and_changes_nothing(
    arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    fedsgt("init", "my.toml", cwd=tmp_path)
    done = fedsgt(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert message in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["my.toml"]


def write_data(folder: Path, **columns: list[Any]) -> None:
    """Twelve records of four owners, with one image that is none if told so."""
    pgm = b"P5 8 8 255\n" + bytes(64)
    rows = {
        "id": [f"r{number}" for number in range(12)],
        "image": [pgm] * 12,
        "label": [number % 3 for number in range(12)],
        "client": [f"c{number % 4}" for number in range(12)],
    }
    for part in ("train", "test"):
        pq.write_table(pa.table({**rows, **(columns if part == "train" else {})}), folder / f"{part}.parquet")


WRONG_DATA: list[tuple[dict[str, list[Any]], tuple[str, ...], str]] = [
    ({}, ("-s", "data.input_columns=['picture']"), "has no column 'picture'"),
    ({"label": [7] + [0] * 11}, (), "record 'r0' has the label 7; allowed: whole numbers from 0 to 2"),
    (
        {"image": [b"no image"] + [b"P5 8 8 255\n" + bytes(64)] * 11},
        (),
        "record 'r0': the image does not decode",
    ),
    ({"client": ["c0"] * 10 + ["c1"] * 2}, (), "data.clients is 4, but the records have 2 owners"),
    ({}, ("-s", "grouping.slices=4"), "client c0 gets 3 records, fewer than its 4 slices"),
    ({}, ("-s", "data.labels=2"), "has the label 2; allowed: whole numbers from 0 to 1"),
]


@pytest.mark.parametrize(("columns", "more", "message"), WRONG_DATA)
def test_wrong_data_is_one_line_and_nothing_is_written(
    columns: dict[str, list[Any]], more: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    write_data(data, **columns)
    given = {
        "data.source": str(data),
        "data.partition": "given",
        "data.clients": 4,
        "data.labels": 3,
        "grouping.groups": 2,
        "grouping.slices": 1,
        "plan.budget": 2,
    }
    fedsgt("init", "my.toml", cwd=tmp_path)
    options = [text for key, value in given.items() for text in ("-s", f"{key}={value}")]
    done = fedsgt("train", "my.toml", *options, *more, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "my.toml"]


def test_a_changed_configuration_is_refused_by_key(trained: Path) -> None:
    done = fedsgt("train", "my.toml", *SMALL, "-s", "training.epochs=2", cwd=trained.parents[1])
    assert done.returncode == 2
    assert "training.epochs: 1 -> 2" in done.stderr
    assert len(done.stderr.splitlines()) == 1
