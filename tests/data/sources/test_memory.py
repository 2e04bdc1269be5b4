"""Records in memory: every usual form gives the same table, and what cannot be used is named."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value
from PIL import Image

from fedsgt.data.dataset import Columns
from fedsgt.data.sources.memory import GivenRecords, given_records, given_table, input_of, is_table
from fedsgt.errors import InputError

COLUMNS = Columns(("sentence",), client="client")
ROWS: list[dict[str, Any]] = [
    {"id": f"t{number}", "sentence": f"text {number}", "label": number % 2, "client": "ab"[number % 2]}
    for number in range(6)
]


@pytest.mark.parametrize(
    "data",
    [
        ROWS,
        pd.DataFrame(ROWS),
        pd.DataFrame(ROWS).set_index("id"),
        pa.Table.from_pylist(ROWS),
        Dataset.from_list(ROWS),
        [{**row, "more": object()} for row in ROWS],
    ],
    ids=["list", "frame", "frame with an index", "table", "dataset", "further columns"],
)
def test_every_form_gives_the_same_rows(data: Any) -> None:
    assert given_table(data, COLUMNS, "text").to_pylist() == [
        {name: row[name] for name in COLUMNS.names()} for row in ROWS
    ]


def test_frames_with_odd_names() -> None:
    rows = pd.DataFrame(ROWS).rename(columns={"sentence": 0})
    assert given_table(rows, Columns(("0",)), "text").column("0").to_pylist()[:2] == ["text 0", "text 1"]
    doubled = pd.DataFrame(ROWS).set_index("id", drop=False)
    assert given_table(doubled, COLUMNS, "text").num_rows == 6


def test_labels_that_a_data_set_declares_are_known() -> None:
    features = Features(
        {"id": Value("string"), "sentence": Value("string"), "label": ClassLabel(names=["no", "yes"])}
    )
    rows = [{name: row[name] for name in features} for row in ROWS]
    table = given_table(Dataset.from_list(rows, features=features), Columns(("sentence",)), "text")
    assert b"ClassLabel" in table.schema.metadata[b"huggingface"]


def test_parts_may_be_given_by_name() -> None:
    frame = pd.DataFrame(ROWS)
    found = given_records({"train": frame[:4], "test": frame[4:]}, COLUMNS, "text")
    assert (found.train.num_rows, found.test.num_rows) == (4, 2)
    parts = DatasetDict({"train": Dataset.from_list(ROWS), "validation": Dataset.from_list(ROWS[:1])})
    assert given_records(parts, COLUMNS, "text").test.num_rows == 1
    assert given_records(frame, COLUMNS, "text").test is None
    with pytest.raises(InputError, match="parts 'train', 'dev'; allowed: train, and test or validation"):
        given_records({"train": frame, "dev": frame}, COLUMNS, "text")
    assert "text" not in repr(GivenRecords(ROWS))


PICTURE = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)


def decoded(data: bytes | str) -> np.ndarray:
    assert isinstance(data, bytes)
    return np.asarray(Image.open(io.BytesIO(data)))


def test_images_of_every_form_become_files_without_loss(tmp_path: Path) -> None:
    picture = Image.fromarray(PICTURE)
    picture.save(tmp_path / "a.png")
    data = (tmp_path / "a.png").read_bytes()
    forms = [picture, PICTURE, data, bytearray(data), tmp_path / "a.png", str(tmp_path / "a.png")]
    forms += [{"bytes": data, "path": None}, {"bytes": None, "path": str(tmp_path / "a.png")}]
    for form in forms:
        assert (decoded(input_of(form, "image", "here")) == PICTURE).all()
    for grey in (PICTURE[:, :, 0], PICTURE[:, :, :1]):
        assert (decoded(input_of(grey, "image", "here")) == PICTURE[:, :, 0]).all()


@pytest.mark.parametrize(
    ("value", "task", "told"),
    [
        (3, "text", "here: a value of type int is not a text"),
        (None, "text", "here: nothing is not a text"),
        ("\ud800", "text", "here: a text with half of a character"),
        (None, "image", "here: nothing is no image"),
        (3.5, "image", "here: a value of type float is no image"),
        (PICTURE.astype(float), "image", "here: an array of float64 of shape 4x4x3 is no image"),
        (np.zeros((2, 2, 2), dtype=np.uint8), "image", "array of uint8 of shape 2x2x2 is no image"),
        ("nowhere.png", "image", "here: the image nowhere.png cannot be read"),
        ({"bytes": None, "path": None}, "image", "here: a value of type dict is no image"),
    ],
)
def test_other_inputs_are_refused(value: Any, task: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        input_of(value, task, "here")


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ("rows", "data: a value of type str is not a table; allowed: a pandas DataFrame"),
        (7, "data: a value of type int is not a table"),
        ([1, 2], "data, row 0: a value of type int is not a dict"),
        ([ROWS[0], {"id": "x"}], "data, row 1, has no column 'label'; its columns: 'id'"),
        (pd.DataFrame({"id": ["a"]}), "data has no column 'label'; its columns: 'id'"),
        (
            [ROWS[0], {**ROWS[1], "label": "yes"}],
            "data: column 'label' holds values of several kinds",
        ),
    ],
)
def test_other_data_is_refused(data: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        given_table(data, COLUMNS, "text")


def test_tables_are_recognised_without_their_libraries() -> None:
    assert is_table(pd.DataFrame(ROWS))
    assert is_table(pa.Table.from_pylist(ROWS))
    assert is_table(Dataset.from_list(ROWS))
    assert not is_table(ROWS)
    assert not is_table("a text")
