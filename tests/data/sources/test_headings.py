"""A source is checked by its headings alone, and all that is wrong with it is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedsgt.data.dataset import Columns
from fedsgt.data.sources import load_dataset
from fedsgt.data.sources.headings import source_problems
from fedsgt.errors import told_by

TEXTS = Columns(("sentence",))
IMAGES = Columns(("image",), images=True)
PARTS: tuple[Literal["train", "test"], ...] = ("train", "test")


def told(source: Path | str, columns: Columns = TEXTS, **settings: Any) -> list[str]:
    return list(source_problems(str(source), columns, **({"labels": 2, "test_share": 0.2} | settings)))


def write_jsonl(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_nothing_is_said_of_sources_that_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("\ufeffid,label,sentence\r\n1,0,a\r\n")
    write_jsonl(tmp_path / "b.jsonl", {"id": 1, "label": 0, "sentence": "a"})
    pq.write_table(pa.table({"id": ["1"], "label": [0], "sentence": ["a"]}), tmp_path / "c.parquet")
    for name in ("a.csv", "b.jsonl", "c.parquet"):
        assert told(tmp_path / name) == []
        assert told(tmp_path / name, test=str(tmp_path / "a.csv")) == []
    (tmp_path / "pictures" / "cat").mkdir(parents=True)
    (tmp_path / "pictures" / "cat" / "1.png").touch()
    assert told(tmp_path / "pictures", IMAGES) == []
    assert told("digits", IMAGES, labels=None) == []
    assert told("owner-of/no-such-thing") == [], "the hub is not asked"


def test_all_that_is_wrong_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name,kind\n1,0\n")
    found = told(tmp_path / "a.csv", labels=None, test="./none.csv")
    assert [line.partition(";")[0] for line in found] == [
        f"{tmp_path}/a.csv has no column 'id'",
        f"{tmp_path}/a.csv has no column 'label'",
        f"{tmp_path}/a.csv has no column 'sentence'",
        "data.test './none.csv' does not exist",
    ]
    assert told(tmp_path / "a.csv", labels=None)[0].endswith(
        "set data.id_column to a column of stable ids, or to #row if rows never move"
    )


def test_files_without_columns_and_with_other_separators(tmp_path: Path) -> None:
    for name in ("a.csv", "a.jsonl"):
        (tmp_path / name).touch()
        (line,) = told(tmp_path / name)
        assert line.endswith("it is empty; allowed: records with the columns 'id', 'label', 'sentence'")
    (tmp_path / "b.csv").write_text("id;label;sentence\n")
    (line,) = told(tmp_path / "b.csv")
    assert line.endswith("columns are separated by commas, not by ';'")


def test_types_and_labels_of_a_parquet_file(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [b"1"], "label": [0], "sentence": [1.5]}), path)
    (labels, ids) = told(path, labels=None)
    assert labels.startswith(f"{path}: nothing declares how many labels there are; set data.labels")
    assert ids == f"{path}: column 'id' is of type binary; allowed: texts or whole numbers"
    pq.write_table(pa.table({"id": ["1"], "label": [0], "sentence": [1.5]}), path)
    (content,) = told(path)
    assert content == f"{path}: column 'sentence' is of type double; allowed: texts or the bytes of images"


@pytest.mark.parametrize(
    ("source", "columns", "settings"),
    [
        ("nowhere.csv", TEXTS, {}),
        ("notes.txt", TEXTS, {}),
        ("latin.csv", TEXTS, {}),
        ("broken.jsonl", TEXTS, {}),
        ("text.parquet", TEXTS, {}),
        ("empty", TEXTS, {}),
        ("parts", TEXTS, {"test": "dev"}),
        ("pictures", TEXTS, {}),
        ("pictures", Columns(("image",), client="client", images=True), {}),
        ("digits", Columns(("image",), client="client", images=True), {"labels": None}),
        ("digits", IMAGES, {"labels": 3}),
    ],
)
def test_the_same_is_told_as_by_reading_all(
    source: str, columns: Columns, settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("a\n")
    Path("latin.csv").write_bytes(b"id,label,sentence,\xe4\n")
    Path("broken.jsonl").write_text("\n\nno json\n")
    Path("text.parquet").write_text("no parquet")
    Path("empty").mkdir()
    Path("parts").mkdir()
    Path("parts/train.csv").write_text("id,label,sentence\n1,0,a\n")
    Path("pictures/cat").mkdir(parents=True)
    Path("pictures/cat/1.png").touch()
    given = {"labels": 2, "test_share": 0.2} | settings
    (line,) = told(source, columns, **given)
    assert line == told_by(lambda: [load_dataset(source, columns, split=part, **given) for part in PARTS])[0]


def test_only_the_beginning_of_a_text_file_is_read(tmp_path: Path) -> None:
    """What is wrong further down is found when the records are loaded."""
    (tmp_path / "a.csv").write_bytes(b"id,label,sentence\n" + b"1,0,a\n" * 10_000 + b"\xff\xff\n")
    assert told(tmp_path / "a.csv") == []
    line = json.dumps({"id": 1, "label": 0, "sentence": "a"}).encode()
    (tmp_path / "a.jsonl").write_bytes(b"\n" + line + b"\n" * 10_000 + b"\xff\n")
    assert told(tmp_path / "a.jsonl") == []
