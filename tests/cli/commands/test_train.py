"""`fedsgt train` and the commands about a run, as a new user meets them: right input and wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import fedsgt, shown

SMALL = (
    *("-s", "grouping.groups=2"),
    *("-s", "plan.budget=2"),
    *("-s", "data.limit=160"),
    *("-s", "data.test_limit=60"),
    *("-s", "training.epochs=1"),
    *("-s", "engine.workers=0"),
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where a starter file was written and trained."""
    folder = tmp_path_factory.mktemp("trained")
    assert fedsgt("init", "my.toml", cwd=folder).returncode == 0
    done = fedsgt("train", "my.toml", *SMALL, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "4 modules of 2 sequences; 4 trained now" in done.stdout
    return folder / "runs" / "my"


def test_the_same_command_finds_nothing_left_to_do(trained: Path) -> None:
    done = fedsgt("train", "my.toml", *SMALL, cwd=trained.parents[1])
    assert "0 trained now" in done.stdout


def test_progress_is_told_in_plain_lines_where_there_is_no_terminal(tmp_path: Path) -> None:
    fedsgt("init", "my.toml", cwd=tmp_path)
    lines = fedsgt("train", "my.toml", *SMALL, cwd=tmp_path).stderr.splitlines()
    assert lines[0] == "training 4 modules of 2 sequences, 1 round each"
    assert [line.split(":")[0] for line in lines[1:]] == [
        f"module {number} of 4 (groups {groups})" for number, groups in enumerate(("0", "0 1", "1", "1 0"), 1)
    ]
    assert all("s left" in line for line in lines[1:])


def test_show_lists_every_module(trained: Path) -> None:
    found: dict[str, Any] = json.loads(shown("show", str(trained), "--json"))
    modules = found["modules"]
    assert [module["prefix"] for module in modules] == [[0], [0, 1], [1], [1, 0]]
    keys = {tuple(module["prefix"]): module["key"] for module in modules}
    for module in modules:
        assert module["live"] is True
        assert module["parent"] == keys.get(tuple(module["prefix"][:-1]))
        manifest = json.loads((trained / "modules" / module["key"] / "manifest.json").read_text())
        assert module["sha256"] == manifest["sha256"]
    assert "4 of 4 modules live" in shown("show", str(trained))


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


def test_runs_lists_them(trained: Path) -> None:
    assert "4 of 4 modules, 10 clients, 2 groups, rotations" in shown("runs", str(trained.parent))
    entries = json.loads(shown("runs", str(trained.parent), "--json"))
    assert [entry["trained"] for entry in entries] == [4]


def test_evaluate_scores_prefixes_and_strategies(trained: Path, tmp_path: Path) -> None:
    picture = tmp_path / "curves.svg"
    text = shown("evaluate", str(trained), "--plot", str(picture))
    assert "AllSeq" in text
    assert "LongSeq" in text
    assert picture.read_text().startswith("<?xml")
    found = json.loads(shown("evaluate", str(trained), "--json"))
    assert found["records"] == 60
    assert [len(curve) for curve in found["sequences"]] == [2, 2]
    assert set(found["strategies"]) == {"all", "min", "long", "merged"}
    cell = found["strategies"]["all"]
    assert 0 <= cell["low"] <= cell["accuracy"] <= cell["high"] <= 1
    assert "AllSeq" in shown("runs", str(trained.parent))


def test_export_is_a_stock_adapter(trained: Path, tmp_path: Path) -> None:
    assert "peft.PeftModel" in shown("export", str(trained), "--sequence", "1", "-o", str(tmp_path / "out"))
    config = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
    assert config["r"] == 2 * 8
    shown("export", str(trained), "--sequence", "0", "--depth", "1", "-o", str(tmp_path / "one"))
    assert json.loads((tmp_path / "one" / "adapter_config.json").read_text())["r"] == 8


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
    (("train", "my.toml", "-s", "model.backbone=./none"), "model.backbone: './none' is no folder"),
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


def test_init_does_not_write_over_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[data]\n")
    done = fedsgt("init", "mine.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert "is there already" in done.stderr
    assert (tmp_path / "mine.toml").read_text() == "[data]\n"
    assert fedsgt("init", "mine.toml", "--force", cwd=tmp_path).returncode == 0


def test_wrong_numbers_of_sequence_and_depth(trained: Path) -> None:
    for options, message in (
        (("--sequence", "2"), "sequence: 2 is not between 0 and 1"),
        (("--sequence", "0", "--depth", "3"), "depth: 3 is not between 1 and the 2 live modules"),
    ):
        done = fedsgt("export", str(trained), *options)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr


def test_evaluating_a_half_trained_run_says_so(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for name in ("run.toml", "run.json", *(path.name for path in trained.glob("ledger.sqlite*"))):
        (tmp_path / "run" / name).write_bytes((trained / name).read_bytes())
    done = fedsgt("evaluate", str(tmp_path / "run"))
    assert "no module is live; fedsgt train or retrain makes some" in done.stderr
