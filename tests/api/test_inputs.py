"""Inputs to predict: every form that people have in Python becomes the same records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from datasets import Dataset
from PIL import Image

from fedsgt.api.inputs import records_of
from fedsgt.config import Config, load
from fedsgt.data import Record
from fedsgt.errors import InputError

TEXT = load({"model": {"task": "text", "backbone": "some/model"}})
PAIR = load(
    {"model": {"task": "text", "backbone": "some/model"}, "data": {"input_columns": ["first", "second"]}}
)
IMAGE = Config()
PICTURES = np.arange(2 * 5 * 6 * 3, dtype=np.uint8).reshape(2, 5, 6, 3)


def contents(inputs: Any, config: Config) -> list[tuple[bytes | str, ...]]:
    return [record.content for record in records_of(inputs, config)]


@pytest.mark.parametrize("inputs", ["one text", ["one text"], ("one text",), np.array(["one text"])])
def test_texts(inputs: Any) -> None:
    assert contents(inputs, TEXT) == [("one text",)]


def test_records_are_called_by_their_place_or_their_id() -> None:
    assert [record.id for record in records_of(["a", "b"], TEXT)] == ["0", "1"]
    rows = [{"id": "x7", "sentence": "a"}, {"id": "x8", "sentence": "b"}]
    for table in (rows, pd.DataFrame(rows), pa.Table.from_pylist(rows), Dataset.from_list(rows)):
        assert [(one.id, one.content) for one in records_of(table, TEXT)] == [("x7", ("a",)), ("x8", ("b",))]
    assert records_of({"sentence": "a"}, TEXT)[0].content == ("a",)
    given = Record("mine", ("a",))
    assert records_of([given], TEXT) == [given]
    assert records_of(given, TEXT) == [given]


@pytest.mark.parametrize("inputs", [("a", "b"), [("a", "b")], [["a", "b"]], {"first": "a", "second": "b"}])
def test_pairs(inputs: Any) -> None:
    assert contents(inputs, PAIR) == [("a", "b")]


def test_images(tmp_path: Path) -> None:
    Image.fromarray(PICTURES[0]).save(tmp_path / "a.png")
    data = (tmp_path / "a.png").read_bytes()
    picture = Image.fromarray(PICTURES[0])
    for one in (picture, PICTURES[0], data, tmp_path / "a.png", str(tmp_path / "a.png")):
        assert contents(one, IMAGE) == contents([one], IMAGE) == [(data,)]
    assert len(contents(PICTURES, IMAGE)) == 2
    assert len(contents(PICTURES[:, :, :, 0], IMAGE)) == 2
    assert len(contents(list(PICTURES), IMAGE)) == 2
    assert contents(pd.DataFrame({"image": [picture]}), IMAGE) == [(data,)]


def test_files_of_records(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("a\nb\n")
    assert contents(tmp_path / "t.txt", TEXT) == [("a",), ("b",)]
    (tmp_path / "t.jsonl").write_text('{"first": "a", "second": "b"}\n')
    assert contents(tmp_path / "t.jsonl", PAIR) == [("a", "b")]


@pytest.mark.parametrize(
    ("inputs", "config", "told"),
    [
        ([], TEXT, "there is nothing to predict"),
        (7, TEXT, "a value of type int cannot be predicted"),
        (None, IMAGE, "a value of type NoneType cannot be predicted"),
        ([7], TEXT, "input 0: a value of type int is not a text"),
        (["a", None], TEXT, "input 1: nothing is not a text"),
        ([("a",)], PAIR, "input 0 has 1 part, but a record of this run has 2: first, second"),
        (["nowhere.png"], IMAGE, "input 0: the image nowhere.png cannot be read"),
        (pd.DataFrame({"text": ["a"]}), TEXT, "data has no column 'sentence'; its columns: 'text'"),
        (Path("t.docx"), TEXT, "t.docx: unknown suffix; allowed: .csv, .jsonl, .parquet, .txt"),
        (Path("nowhere.jsonl"), TEXT, "nowhere.jsonl: no such file"),
    ],
)
def test_what_cannot_be_predicted_is_named(inputs: Any, config: Config, told: str) -> None:
    with pytest.raises(InputError, match=told):
        records_of(inputs, config)
