"""Records are the same whatever format their rows are in."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_files import FORMATS, Rows, write_as

from fedsgt.data import Columns, Dataset, Record, load_dataset
from fedsgt.data.dataset import Choice
from fedsgt.data.sources.csv_files import read_csv
from fedsgt.data.sources.table import dataset_from_table
from fedsgt.errors import InputError

COLUMNS = Columns(("one", "two"), client="site")
NAMES = ("no", "yes", "1", '\u00e4, "b"')

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
names = texts.filter(bool)


@st.composite
def tables(draw: st.DrawFn) -> Rows:
    ids = draw(st.lists(names, min_size=1, max_size=6, unique=True))
    label = st.sampled_from(NAMES)
    return [
        {"one": draw(texts), "id": name, "label": draw(label), "site": draw(names), "two": draw(texts)}
        for name in ids
    ]


def loaded(form: str, rows: Rows) -> Dataset:
    with TemporaryDirectory() as folder:
        path = write_as(form, Path(folder), rows)
        return load_dataset(str(path), COLUMNS, label_names=NAMES)


@settings(max_examples=60, deadline=None)
@given(tables())
def test_text_files_and_parquet_give_the_same_records(rows: Rows) -> None:
    expected = [
        Record(row["id"], (row["one"], row["two"]), NAMES.index(row["label"]), row["site"])
        for row in sorted(rows, key=lambda row: str(row["id"]))
    ]
    for form in ("csv", "jsonl", "parquet"):
        found = loaded(form, rows)
        assert list(found.records) == expected, form
        assert (found.label_count, found.label_names) == (4, NAMES)


@settings(max_examples=5, deadline=None)
@given(tables())
def test_tables_of_other_libraries_give_the_same_records(rows: Rows) -> None:
    wanted = loaded("csv", rows).records
    assert all(loaded(form, rows).records == wanted for form in ("pandas", "saved"))


@pytest.mark.parametrize("form", FORMATS)
def test_numbers_are_ids_and_labels_in_every_format(tmp_path: Path, form: str) -> None:
    rows = [{"id": 10, "label": 1, "text": "a"}, {"id": 9, "label": 0, "text": "b"}]
    found = load_dataset(str(write_as(form, tmp_path, rows)), Columns(("text",)), labels=2)
    assert [(record.id, record.label) for record in found.records] == [("10", 1), ("9", 0)]


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_wrong_is_told_in_every_format(tmp_path: Path, form: str) -> None:
    rows = [{"id": "a", "label": "no", "text": "a"}, {"id": "b", "label": "maybe", "text": "b"}]
    source = str(write_as(form, tmp_path, rows))
    columns = Columns(("text",))
    with pytest.raises(
        InputError, match=r"record 'b' has the label 'maybe'; allowed: 'no', 'yes' \(data\.lab"
    ):
        load_dataset(source, columns, label_names=["no", "yes"])
    hint = r"; set data\.label_names if labels are texts \(fedsgt init FILE --data SOURCE writes it\)"
    with pytest.raises(InputError, match=r"nothing declares how many labels.*, or" + hint[1:]):
        load_dataset(source, columns)
    with pytest.raises(
        InputError, match=r"record 'a' has the label 'no'; allowed: whole numbers from 0 to 1" + hint
    ):
        load_dataset(source, columns, labels=2)
    with pytest.raises(
        InputError, match=r"has no column 'key'; its columns: 'id', 'label', 'text'; set data\.id_co"
    ):
        load_dataset(source, Columns(("text",), id="key"), labels=2)


def test_rows_that_are_not_used_are_not_read(tmp_path: Path) -> None:
    """Images of unused rows may be missing; the ids of all rows are checked."""
    rows = [{"id": str(i), "label": 0, "image": f"{i}.png"} for i in range(20)]
    path = write_as("csv", tmp_path, rows)
    columns = Columns(("image",), images=True)
    used = dataset_from_table(
        read_csv(path, columns.names()), Columns(("image",)), labels=2, choice=Choice(3)
    )
    for record in used.records:
        (tmp_path / f"{record.id}.png").write_bytes(b"image")
    found = load_dataset(str(path), columns, labels=2, limit=3)
    assert [record.id for record in found.records] == [record.id for record in used.records]
    assert {record.content for record in found.records} == {(b"image",)}
