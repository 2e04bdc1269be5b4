"""`fedsgt predict`: files, standard input and test records in, JSON out; wrong input in one line."""

from __future__ import annotations

import base64
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from command import Done, fedsgt
from tiny_world import Quiet, World

from fedsgt.build.train import train
from fedsgt.ledger.kinds import Kind
from fedsgt.runs.folder import open_run
from fedsgt.serving.predictor import Predictor


@pytest.fixture(scope="module")
def pictures(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("predict") / "pictures"
    train(images.config("grouping.groups=2"), path, Quiet()).ledger.close()
    return path


@pytest.fixture(scope="module")
def sentences(texts: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("predict") / "sentences"
    train(texts.config("grouping.groups=2", "peft.kind=ia3"), path, Quiet()).ledger.close()
    return path


def piped(monkeypatch: pytest.MonkeyPatch, data: bytes, *arguments: str) -> Done:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    return fedsgt("predict", *arguments)


def document(done: Done) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def request(run: Path, *groups: int) -> int:
    folder = open_run(run)
    with folder.ledger.writing() as writer:
        return writer.append(Kind.REQUEST, {"parts": [], "groups": list(groups)}).position


def image_files(images: World, folder: Path) -> list[str]:
    files = [folder / f"{row.id}.pgm" for row in images.rows[:3]]
    for file, row in zip(files, images.rows, strict=False):
        assert isinstance(row.content, bytes)
        file.write_bytes(row.content)
    return [str(file) for file in files]


def test_images_in_json_out(pictures: Path, images: World, tmp_path: Path) -> None:
    files = image_files(images, tmp_path)
    found = document(fedsgt("predict", str(pictures), *files))
    expected = Predictor(pictures).predict([row.content for row in images.rows[:3]])
    assert list(found) == [
        "position",
        "strategy",
        "sequences",
        "damaged",
        "problems",
        "damaged_statistics",
        "bare_backbone",
        "floor",
        "solved_from",
        "records",
    ]
    assert (found["position"], found["strategy"]) == (expected.position, "all")
    assert found["sequences"] == [
        {"index": 0, "groups": [0, 1], "weight": 0.5, "solved": False},
        {"index": 1, "groups": [1, 0], "weight": 0.5, "solved": False},
    ]
    assert (found["damaged"], found["bare_backbone"]) == ([], False)
    assert found["records"] == [
        {"id": file, "label": label, "probabilities": row}
        for file, label, row in zip(files, expected.labels, expected.probabilities.tolist(), strict=True)
    ]


def test_lines_have_a_record_each(pictures: Path, images: World, tmp_path: Path) -> None:
    files = image_files(images, tmp_path)
    done = fedsgt("predict", str(pictures), "--jsonl", *files)
    whole = document(fedsgt("predict", str(pictures), *files))
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines == [{**record, "position": whole["position"]} for record in whole["records"]]
    about = json.loads(done.stderr)
    assert about == {key: value for key, value in whole.items() if key != "records"}


def test_standard_input(
    pictures: Path, sentences: Path, images: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = images.rows[0]
    assert isinstance(row.content, bytes)
    line = json.dumps({"image": base64.b64encode(row.content).decode(), "id": "mine"})
    one = document(piped(monkeypatch, line.encode(), str(pictures)))["records"]
    assert [record["id"] for record in one] == ["mine"]
    many = document(piped(monkeypatch, b'w1 w2\n{"sentence": "w1 w2"}\nw3', str(sentences), "-"))["records"]
    assert [record["id"] for record in many] == ["1", "2", "3"]
    assert many[0]["probabilities"] == many[1]["probabilities"] != many[2]["probabilities"]


def test_the_runs_test_records_with_accuracy(pictures: Path) -> None:
    found = document(fedsgt("predict", str(pictures), "--test"))
    evaluated = json.loads(fedsgt("evaluate", str(pictures), "--json").stdout)
    assert len(found["records"]) == evaluated["records"] == 6
    assert {key: found[key] for key in ("accuracy", "low", "high")} == evaluated["strategies"]["all"]
    few = document(fedsgt("predict", str(pictures), "--test", "--limit", "2"))
    assert [record["id"] for record in few["records"]] == [r["id"] for r in found["records"][:2]]


def test_merged_says_how_far_it_agrees(sentences: Path) -> None:
    merged = document(fedsgt("predict", str(sentences), "--test", "--strategy", "merged"))
    every = document(fedsgt("predict", str(sentences), "--test"))
    same = [
        one["label"] == other["label"] for one, other in zip(merged["records"], every["records"], strict=True)
    ]
    assert merged["agreement"] == pytest.approx(sum(same) / len(same))
    assert "agreement" not in every
    quick = fedsgt("predict", str(sentences), "--test", "--strategy", "merged", "--no-agreement")
    assert "agreement" not in document(quick)


def test_after_a_deletion_and_when_exhausted(pictures: Path, tmp_path: Path) -> None:
    run = shutil.copytree(pictures, tmp_path / "run")
    position = request(run, 0)
    found = document(fedsgt("predict", str(run), "--test"))
    only = {"index": 1, "groups": [1], "weight": 1.0, "solved": False}
    assert (found["position"], found["sequences"]) == (position, [only])
    request(run, 1)
    done = fedsgt("predict", str(run), "--test")
    assert (done.returncode, done.stdout) == (2, "")
    assert "exhausted: no module is live" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    done = fedsgt("evaluate", str(run))
    assert (done.returncode, "no module is live" in done.stderr) == (2, True)


def test_a_damaged_module_is_told(pictures: Path, tmp_path: Path) -> None:
    run = shutil.copytree(pictures, tmp_path / "run")
    name = open_run(run).description.keys[0, 1]
    (run / "modules" / name / "module.safetensors").write_bytes(b"")
    done = fedsgt("predict", str(run), "--test")
    assert document(done)["damaged"] == [name]
    assert f"fedsgt: predicted without it: module {name[:12]} (groups 0, 1) is damaged: " in done.stderr


def test_label_names(tmp_path: Path) -> None:
    """The embedded digits declare theirs."""
    small = (
        "grouping.groups=1",
        "data.limit=60",
        "data.test_limit=4",
        "training.epochs=1",
        "engine.workers=0",
    )
    options = [text for value in small for text in ("-s", value)]
    assert fedsgt("init", "my.toml", cwd=tmp_path).returncode == 0
    assert fedsgt("train", "my.toml", *options, cwd=tmp_path).returncode == 0
    found = document(fedsgt("predict", "runs/my", "--test", cwd=tmp_path))
    assert all(record["name"] == str(record["label"]) for record in found["records"])


def test_wrong_input_is_one_line(
    pictures: Path, sentences: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad.png").write_bytes(b"no image")
    (tmp_path / "long.txt").write_text("w1 " * 30)
    for arguments, message in (
        ((str(tmp_path / "none"), "--test"), "no such run"),
        ((str(pictures), "none.png"), "none.png: no such file"),
        ((str(pictures), str(tmp_path / "bad.png")), "the image does not decode"),
        ((str(sentences), str(tmp_path / "long.txt")), "32 tokens are more than 20"),
        ((str(sentences), "a.tsv"), "a.tsv: unknown suffix"),
        ((str(sentences),), "standard input: there are no records"),
        ((str(sentences), "--test", "--strategy", "best"), "strategy: 'best' is unknown"),
        ((str(sentences), "--test", "-"), "files and --test are both given"),
        ((str(sentences), "--limit", "3"), "--limit goes with --test"),
        ((str(sentences), "--test", "--limit", "0"), "--limit"),
    ):
        done = piped(monkeypatch, b"", *arguments)
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert message in done.stderr
        assert len(done.stderr.splitlines()) == 1, done.stderr
