"""`fedsgt compare`: the table, the files, and mistakes before any training."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from command import fedsgt, shown

SMALL = {
    "data.limit": 120,
    "data.test_limit": 40,
    "data.clients": 3,
    "data.partition": "iid",
    "grouping.groups": 2,
    "plan.budget": 2,
    "engine.workers": 0,
    "training.epochs": 1,
    "heads.solve": False,
}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a configuration that trains in a moment."""
    folder = tmp_path_factory.mktemp("compare")
    lines = [f"{key} = {json.dumps(value)}" for key, value in SMALL.items()]
    (folder / "my.toml").write_text("\n".join(lines) + "\n")
    return folder / "my.toml"


def test_the_table_and_the_files(config: Path, tmp_path: Path) -> None:
    arguments = [
        *("compare", str(config), "--system", "fedsgt", "--system", "alone: fedavg training.rounds=1"),
        *("--requests", "2", "--seeds", "0,3", "-o", "out", "--plot", "a.svg", "--csv", "a.csv"),
    ]
    done = fedsgt(*arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "accuracy in percent over 2 requests (slices), 2 seeds"
    assert lines[2].split() == ["system", "before", "after", "1", "after", "2", "mean", "served", "passes"]
    assert lines[3].startswith("fedsgt ")
    assert lines[4].startswith("alone ")
    assert "none" in lines[4]
    assert lines[-3:] == ["drawn into a.svg", "all results in a.csv", "runs and results in out"]
    assert "alone, seed 3, after 2 requests: nothing is served; about 0 s left" in done.stderr
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")
    with (tmp_path / "a.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["system"] for row in rows] == ["fedsgt"] * 6 + ["alone"] * 6


def test_json_and_a_file_of_requests(config: Path, tmp_path: Path) -> None:
    stream = tmp_path / "requests.json"
    stream.write_text(
        json.dumps([{"client": "client-1", "all": True}, {"client": "client-0", "slices": [1]}])
    )
    found = json.loads(shown("compare", str(config), "--system", "fedsgt", "--stream", str(stream), "--json"))
    assert (found["stream"], found["requests"]) == ("given", 2)
    assert [one["request"] for one in found["points"]] == [0, 1, 2]


def test_all_mistakes_are_told_at_once(config: Path, tmp_path: Path) -> None:
    done = fedsgt(
        *("compare", str(config), "--system", "fedsgd", "--system", "x: plan.kind=no", "--stream", "no.json"),
        *("--requests", "0", "--seeds", "one", "--plot", "a.jpg", "--csv", "none/a.csv", "-o", "out"),
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines[0] == "fedsgt: 7 mistakes"
    for words in (
        "'fedsgd' is no",
        "x: plan.kind",
        "no.json",
        "requests is 0",
        "seeds is 'one'",
        "a.jpg",
        "csv:",
    ):
        assert sum(words in line for line in lines) == 1, words
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--system", "x: 'plan.kind=tree"], "No closing quotation"),
        (["--seeds", "1,1"], "seeds is [1, 1]"),
        (["-o", "my.toml"], "my.toml: no folder"),
        (["-s", "data.source=./none.parquet"], "none.parquet"),
    ],
)
def test_a_mistake_is_one_line(config: Path, arguments: list[str], words: str) -> None:
    done = fedsgt("compare", "my.toml", "--system", "fedsgt", *arguments, cwd=config.parent)
    assert done.returncode == 2
    assert done.stderr.startswith("fedsgt: ")
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert [one.name for one in config.parent.iterdir()] == ["my.toml"]
