"""Sources of every format are checked by names and headers, before anything is read of them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from record_files import write_as, write_images

from fedsgt.data import Columns
from fedsgt.data.sources import read_names
from fedsgt.data.sources.headings import source_problems
from fedsgt.errors import InputError

TEXT, IMAGES = Columns(("text",)), Columns(("image",), images=True)
ROWS = [{"id": "a", "text": "A", "label": 0}, {"id": "b", "text": "B", "label": 1}]


def problems(source: str, columns: Columns, **settings: Any) -> list[str]:
    return list(source_problems(source, columns, **settings))


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "saved"])
def test_columns_are_told_without_reading_records(tmp_path: Path, form: str) -> None:
    source = str(write_as(form, tmp_path, ROWS))
    assert problems(source, TEXT, test_share=0.2, labels=2) == []
    (column,) = problems(source, Columns(("words",)), test_share=0.2, labels=2)
    assert "has no column 'words'" in column
    assert column.endswith("; set data.input_columns")
    (part,) = problems(source, TEXT, labels=2)
    assert "has no part test or validation" in part
    assert read_names(Path(source), "id", "text") == [["a", "b"], ["A", "B"]]


def test_everything_that_names_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = str(write_as("csv", tmp_path, ROWS))
    images = str(write_images(tmp_path / "images", {"cat/1.png": b"1", "dog/1.png": b"2"}))
    split: dict[str, Any] = {"test_share": 0.2}
    cases: list[tuple[str, Columns, dict[str, Any], str]] = [
        (source, TEXT, split, "nothing declares how many labels there are"),
        ("x.cvs", TEXT, {"labels": 2}, "data.source 'x.cvs' does not exist; did you mean 'x.csv'?"),
        (source, TEXT, {"test": "./y.csv", "labels": 2}, "data.test './y.csv' does not exist; did you mean"),
        (images, TEXT, split | {"labels": 2}, "it is a folder of images; allowed for model.task"),
        ("digits", Columns(("image",), client="client", images=True), {}, "its records have no owners"),
        ("digits", IMAGES, {"test": "dev"}, "has no part dev; its parts: train, public, test"),
    ]
    for place, columns, settings, told in cases:
        (problem,) = problems(place, columns, **settings)
        assert told in problem
    assert problems(images, IMAGES, label_names=["cat", "dog"], **split) == []
    assert problems("digits", IMAGES) == []
    with pytest.raises(InputError, match=r"nothing\.csv is not there, or of no known format"):
        read_names(tmp_path / "nothing.csv", "id")


def test_nothing_is_asked_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(import_module("datasets"), "load_dataset", None)
    assert problems("owner/name", TEXT) == []
