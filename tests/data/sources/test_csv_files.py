"""Files of csv: every value is kept as it is written, and what is wrong is named by its line."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from dataset_columns import contents_of, ids_of, owners_of

from fedsgt.data import Columns, load_dataset
from fedsgt.data.sources.csv_files import csv_columns, read_csv
from fedsgt.errors import InputError

TEXT = Columns(("sentence",))


def written(folder: Path, data: bytes | str) -> str:
    path = folder / "x.csv"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return str(path)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_rows_are_read_whatever_the_line_ends_and_the_byte_order_mark(
    tmp_path: Path, mark: str, end: str
) -> None:
    lines = ["id,sentence,label,unused", "b,two words,1,", "a,'quoted',0,x", ""]
    table = load_dataset(written(tmp_path, mark + end.join(lines)), TEXT, labels=2)
    assert ids_of(table.records) == ("a", "b")
    assert contents_of(table.records) == (("'quoted'",), ("two words",))
    assert table.labels == (0, 1)


def test_ids_labels_and_texts_stay_as_they_are_written(tmp_path: Path) -> None:
    """A spreadsheet's reader would make 7 of 007, nothing of NA, and a date of 1-2."""
    ids = ["007", "7", "1-2", "NA", "nan", "1e3", " x ", "TRUE", "\u00e4"]
    source = written(tmp_path, "id,sentence,label\n" + "".join(f"{name},{name},1\n" for name in ids))
    table = load_dataset(source, TEXT, labels=2)
    assert ids_of(table.records) == tuple(sorted(ids))
    assert contents_of(table.records) == tuple((name,) for name in sorted(ids))


def test_quotes_commas_and_line_breaks_inside_of_values(tmp_path: Path) -> None:
    source = written(tmp_path, 'id,sentence,label\na,"one, ""two""\r\nthree\n",0\n\nb,"",1\nc,it is "so",1\n')
    table = load_dataset(source, TEXT, labels=2)
    assert contents_of(table.records) == (('one, "two"\r\nthree\n',), ("",), ('it is "so"',))


def test_a_very_long_text(tmp_path: Path) -> None:
    text = "word " * 200_000
    before = csv.field_size_limit(1000)
    try:
        table = load_dataset(written(tmp_path, f"id,sentence,label\na,{text},0\n"), TEXT, labels=2)
    finally:
        csv.field_size_limit(before)
    assert contents_of(table.records) == ((text,),)


def test_owners_and_row_numbers(tmp_path: Path) -> None:
    source = written(tmp_path, "sentence,site,label\nB,n,1\n\nA,s,0\n")
    table = load_dataset(source, Columns(("sentence",), id="#row", client="site"), labels=2)
    assert ids_of(table.records) == ("000000000", "000000001")
    assert owners_of(table.records) == ("n", "s")


def test_columns_that_may_be_missing(tmp_path: Path) -> None:
    path = Path(written(tmp_path, "id,sentence,twice,twice\na,A,1,2\n"))
    table = read_csv(path, ["sentence"], ["id", "other", "twice", "sentence"])
    assert [table.has(name) for name in ("sentence", "id", "other", "twice")] == [True, True, False, False]
    assert csv_columns(path) == ["id", "sentence", "twice", "twice"]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("", ": it is empty; allowed: a line with the names of columns, and then records"),
        ("\n\n", ": it is empty"),
        ("id,sentence,label\na,A\n", ", line 2: 2 values, where the first line has 3 columns; put"),
        ("id,sentence,label\na,A,0\nb,B, b,0\n", ", line 3: 4 values, where the first line has 3 columns"),
        ('id,sentence,label\na,"A\nA",0\nb\n', ", line 4: 1 value, where"),
        ('id,sentence,label\na,A,0\nb,"B,0\nc,C,0\n', ", line 3: not csv (unexpected end of data)"),
        ('id,sentence,label\na,"A"A,0\n', ", line 2: not csv ("),
        ("id,sentence,label\na,A,0\n,B,0\n", ": column 'id' is empty in line 3; allowed: a text or whole"),
        ('id,sentence,label\na,"A\n",0\nb,B,0\na,C,1\n', ": column 'id' has the id 'a' in lines 2 and 5"),
        ("id,sentence,label\na,A,\n", ": record 'a' has the label ''; allowed: whole numbers from 0 to"),
        ("id,sentence,label\na,A,01\n", ": record 'a' has the label '01'; allowed: whole numbers"),
        ("id,sentence,label\na,A,2\n", ": record 'a' has the label '2'; allowed: whole numbers from 0 to 1"),
        ("id,text,label\n", " has no column 'sentence'; its columns: 'id', 'text', 'label'; set data.in"),
        ("text,label\n", " has no column 'id'; its columns: 'text', 'label'; set data.id_c"),
        ("id,sentence,label,id\n", " has more than one column 'id'"),
        ("id;sentence;label\n", " has no column 'id'; its columns: 'id;sentence;label'; columns are"),
        (
            "id\tsentence\tlabel\n",
            " has no column 'id'; its columns: 'id\\tsentence\\tlabel'; columns are separated by commas",
        ),
        (b"id,sentence,label\na,\xe4,0\n", ", line 2: not text in UTF-8; save the file as UTF-8"),
        (b"\xef\xbb\xbfid,sentence,label\na,\xe4,0\n", ", line 2: not text in UTF-8"),
        ("id,sentence,label\n".encode("utf-16"), ", line 1: not text in UTF-8"),
        (b"id,sentence,label\na,A,0\nb,\0B,0\n", ", line 3: a NUL byte, which no text has"),
    ],
)
def test_what_is_wrong_is_named_by_file_and_line(tmp_path: Path, data: bytes | str, problem: str) -> None:
    source = written(tmp_path, data)
    with pytest.raises(InputError) as caught:
        load_dataset(source, TEXT, labels=2)
    assert str(caught.value).startswith(source + problem)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"x\.csv cannot be read \(No such file or directory\)$"):
        read_csv(tmp_path / "x.csv", ["id"])


def test_a_file_without_rows_is_what_a_deletion_leaves(tmp_path: Path) -> None:
    source = written(tmp_path, "id,sentence,label\n")
    assert load_dataset(source, TEXT, labels=2).records == ()
    with pytest.raises(InputError, match=r"x\.csv: there are no rows; set data\.test to a file"):
        load_dataset("digits", TEXT, split="test", test=source, labels=2)
