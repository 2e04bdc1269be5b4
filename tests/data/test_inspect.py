"""A source is looked at once: its format, columns, labels, owners and parts are found or asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedsgt.data.inspect import Asked, Found, look_at
from fedsgt.errors import InputError

ROWS = [
    {"uid": f"p{n:02}", "text": f"text no. {n}", "mood": ("good", "bad")[n % 2], "site": f"s{n % 3}"}
    for n in range(36)
]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
        path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_columns_labels_and_owners_are_found(tmp_path: Path, suffix: str) -> None:
    found = look_at(str(write(tmp_path / f"notes{suffix}", ROWS)), Asked())
    assert found == Found(
        format=found.format,
        records=36,
        task="text",
        labels=("bad", "good"),
        inputs=("text",),
        id="uid",
        label="mood",
        client="site",
        owners=(12, 12, 12),
    )
    assert found.format == suffix[1:]


def test_numbers_from_0_on_are_labels_by_themselves(tmp_path: Path) -> None:
    rows = [{**row, "mood": number % 3} for number, row in enumerate(ROWS)]
    found = look_at(str(write(tmp_path / "notes.csv", rows)), Asked())
    assert (found.labels, found.numbered) == (("0", "1", "2"), True)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_other_numbers_are_names_in_the_order_of_numbers(tmp_path: Path, suffix: str) -> None:
    rows = [{**row, "mood": (2, 10, -1)[number % 3]} for number, row in enumerate(ROWS)]
    found = look_at(str(write(tmp_path / f"notes{suffix}", rows)), Asked())
    assert (found.labels, found.numbered) == (("-1", "2", "10"), False)


def test_names_that_the_file_declares_are_kept(tmp_path: Path) -> None:
    names = {"info": {"features": {"label": {"names": ["x", "y", "z"], "_type": "ClassLabel"}}}}
    rows = pa.table({"id": range(9), "label": [0, 1] * 4 + [0], "image": [b"x"] * 9})
    pq.write_table(rows.replace_schema_metadata({"huggingface": json.dumps(names)}), tmp_path / "a.parquet")
    found = look_at(str(tmp_path / "a.parquet"), Asked())
    assert (found.labels, found.numbered) == (("x", "y", "z"), True)
    assert (found.task, found.inputs, found.paths) == ("image", ("image",), False)


def test_a_test_part_is_found_and_its_labels_count(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", ROWS)
    test = write(tmp_path / "validation.jsonl", [{**ROWS[0], "mood": "so so"}])
    found = look_at(str(tmp_path), Asked())
    assert (found.test, found.records) == (test, 36)
    assert found.labels == ("bad", "good", "so so")


def images(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"P5 1 1 255\n0")
    return folder


def test_folders_of_images_have_labels_and_no_columns(tmp_path: Path) -> None:
    names = ["train/dog/1.png", "train/cat/1.png", "train/cat/2.png", "test/eel/1.png"]
    folder = images(tmp_path / "photos", *names)
    found = look_at(str(folder), Asked())
    assert found == Found("images", 3, "image", ("cat", "dog", "eel"), test=folder / "test")
    assert look_at(str(folder / "train"), Asked()).test is None
    with pytest.raises(InputError, match="which has no columns; leave their options out"):
        look_at(str(folder), Asked(id="uid"))


def test_paths_of_images_are_images(tmp_path: Path) -> None:
    rows = [{"name": f"n{n}", "scan": f"pics/{n}.png", "class": n % 2} for n in range(6)]
    found = look_at(str(write(tmp_path / "scans.csv", rows)), Asked())
    assert (found.task, found.inputs, found.paths, found.id) == ("image", ("scan",), True, "name")


def test_columns_that_are_asked_for_are_taken(tmp_path: Path) -> None:
    source = str(write(tmp_path / "notes.csv", ROWS))
    found = look_at(source, Asked(id="text", label="site", inputs=("mood",), client="uid"))
    assert (found.id, found.label, found.inputs, found.client) == ("text", "site", ("mood",), "uid")
    assert look_at(source, Asked(id="#row")).id == "#row"


WRONG: list[tuple[str, str | None, Asked, str]] = [
    ("nowhere.csv", None, Asked(), "does not exist"),
    ("notes.txt", "id,label\n", Asked(), "is of no known format"),
    ("notes.csv", "", Asked(), "it is empty; allowed: a line with the names of columns"),
    ("notes.csv", "id,text,label\n", Asked(), "there are no records in it"),
    ("notes.jsonl", "", Asked(), "there are no records in it"),
    ("notes.jsonl", "[1]\n", Asked(), "line 1: not a JSON object"),
    ("notes.parquet", "no parquet", Asked(), "cannot be read as a parquet file"),
    ("notes.csv", "text,label\nx y,0\nx y,1\n", Asked(), "no column has ids"),
    (
        "notes.csv",
        "id,text\n1,x y\n2,x z\n3,x w\n4,x v\n5,x u\n6,x t\n",
        Asked(),
        "no column has labels",
    ),
    (
        "notes.csv",
        "id,label,size\n1,0,0.5\n2,1,1.5\n",
        Asked(),
        "no column has images, paths of",
    ),
    ("notes.csv", "id,text,label\n1,x,0\n2,y,1\n", Asked(id="uid"), "--id-column 'uid' is no column"),
]


@pytest.mark.parametrize(("name", "content", "asked", "message"), WRONG)
def test_what_cannot_be_found_is_one_line(
    tmp_path: Path, name: str, content: str | None, asked: Asked, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError) as error:
        look_at(str(tmp_path / name), asked)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_folders_that_hold_nothing_to_train_on_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder, message in (
        (tmp_path / "empty", "is of no known format"),
        (images(tmp_path / "one", "cat/1.png"), "there is 1 label"),
        (write(tmp_path / "parts" / "test.csv", ROWS).parent, "has no part train, but test"),
    ):
        with pytest.raises(InputError, match=message):
            look_at(str(folder), Asked())
    (tmp_path / "none" / "cat").mkdir(parents=True)
    with pytest.raises(InputError, match="there is no image in it"):
        look_at(str(tmp_path / "none"), Asked())
