"""Input of `fedsgt predict`: files of every kind and standard input, and clear errors for all else."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from record_files import write_as

from fedsgt.config import Config, load
from fedsgt.data import Record
from fedsgt.errors import InputError
from fedsgt.serving.inputs import read_records

PGM = b"P5 1 1 255\n\x07"


class Terminal(io.BytesIO):
    def isatty(self) -> bool:
        return True


def texts(*columns: str) -> Config:
    return load(None, ["model.task=text", *([f"data.input_columns={list(columns)}"] if columns else [])])


def images() -> Config:
    return load(None, [])


def piped(run: Config, data: bytes) -> list[Record]:
    return read_records([], run, io.BytesIO(data))


def of_file(run: Config, file: Path, data: bytes) -> list[Record]:
    file.write_bytes(data)
    return read_records([str(file)], run, Terminal())


def test_an_image_is_called_by_its_file(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("b.png", "a.PGM", "none")]
    for number, file in enumerate(files):
        file.write_bytes(PGM + bytes([number]))
    found = read_records([str(file) for file in files], images(), Terminal())
    assert found == [Record(str(file), (PGM + bytes([number]),)) for number, file in enumerate(files)]


def test_images_in_json_lines(tmp_path: Path) -> None:
    packed = base64.b64encode(PGM).decode()
    lines = f'{{"image": "{packed}", "id": "one", "label": 3}}\n\n{{"image": "{packed}"}}'.encode()
    assert piped(images(), lines) == [Record("one", (PGM,)), Record("3", (PGM,))]
    file = tmp_path / "many.jsonl"
    assert of_file(images(), file, lines) == [Record("one", (PGM,)), Record(f"{file}:3", (PGM,))]


def test_texts_a_line_each(tmp_path: Path) -> None:
    file = tmp_path / "many.txt"
    data = "\ufefffine\r\n\n{not json} \u2028 here\n".encode()
    assert of_file(texts(), file, data) == [
        Record(f"{file}:1", ("fine",)),
        Record(f"{file}:3", ("{not json} \u2028 here",)),
    ]


def test_standard_input_has_texts_and_json_side_by_side() -> None:
    data = b'plain\n {"sentence": "packed", "id": 7}\n'
    assert piped(texts(), data) == [Record("1", ("plain",)), Record("7", ("packed",))]


def test_pairs_of_texts() -> None:
    data = b'{"b": "second", "a": "first"}'
    assert piped(texts("a", "b"), data) == [Record("1", ("first", "second"))]


def test_files_and_standard_input_stand_in_the_order_given(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\ntwo\n")
    found = read_records([str(file), "-", str(file)], texts(), io.BytesIO(b"three"))
    first = [Record(f"{file}:1", ("one",)), Record(f"{file}:2", ("two",))]
    assert found == [*first, Record("1", ("three",)), *first]


@pytest.mark.parametrize("named", [True, False])
def test_parquet(tmp_path: Path, named: bool) -> None:
    file = tmp_path / "many.parquet"
    ids = {"id": [5, 6]} if named else {}
    pq.write_table(pa.table({"sentence": ["one", "two"], "other": [1, 2], **ids}), file)
    found = read_records([str(file)], texts(), Terminal())
    first, second = ("5", "6") if named else (f"{file}:1", f"{file}:2")
    assert found == [Record(first, ("one",)), Record(second, ("two",))]


def test_csv(tmp_path: Path) -> None:
    file = tmp_path / "many.csv"
    data = b'\xef\xbb\xbfid,other,sentence\n007,x,"one,\ntwo"\n,x,three\n'
    assert of_file(texts(), file, data) == [
        Record("007", ("one,\ntwo",)),
        Record(f"{file}:4", ("three",)),
    ]
    pair = b"b,a\nsecond,first\n"
    assert of_file(texts("a", "b"), file, pair) == [Record(f"{file}:2", ("first", "second"))]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_images_by_their_paths(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "cats").mkdir()
    (tmp_path / "cats/1.pgm").write_bytes(PGM)
    file = write_as(suffix, tmp_path, [{"id": "a", "image": "cats/1.pgm"}])
    assert read_records([str(file)], images(), Terminal()) == [Record("a", (PGM,))]
    for path, problem in (
        ("cats/2.pgm", "'cats/2.pgm' does not exist"),
        ("../1.pgm", "is no path of an image"),
    ):
        file = write_as(suffix, tmp_path, [{"id": "a", "image": path}])
        with pytest.raises(InputError, match=rf"x\.{suffix}, (line|row) \d.*{problem}"):
            read_records([str(file)], images(), Terminal())


def test_no_path_comes_from_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "1.pgm").write_bytes(PGM)
    with pytest.raises(InputError, match="column 'image' is not base64"):
        piped(images(), b'{"image": "1.pgm"}')


def test_images_in_parquet_as_bytes_or_as_the_datasets_library_has_them(tmp_path: Path) -> None:
    for number, value in enumerate((PGM, {"bytes": PGM, "path": None})):
        file = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"image": [value]}), file)
        assert read_records([str(file)], images(), Terminal()) == [Record(f"{file}:1", (PGM,))]


WRONG_LINES = [
    (texts(), b"", "standard input: there are no records"),
    (texts(), b" \n\n", "standard input: there are no records"),
    (texts(), b"\xff\xfe", "standard input: not a text in UTF-8"),
    (texts(), b"fine\n{no", "standard input, line 2: not JSON"),
    (texts(), b'{"text": 1}', "standard input, line 1 has no column 'sentence'; its columns: 'text'"),
    (texts(), b"{}", "standard input, line 1 has no column 'sentence'; its columns: none"),
    (texts(), b'{"sentence": 5}', "standard input, line 1: column 'sentence' is not a text"),
    (texts(), b'{"sentence": "\\ud800"}', "standard input, line 1: column 'sentence' is not a text"),
    (texts("a", "b"), b"alone", "line 1: one text, but a record has 'a' and 'b'; give JSON"),
    (images(), b"[1]", "line 1: not a JSON object; allowed: an object for each record"),
    (images(), b"[" * 100_000, "line 1: not JSON that can be read (nested too deeply)"),
    (images(), b"P5 1 1 255", "line 1: not JSON"),
    (images(), b'{"image": "%%"}', "line 1: column 'image' is not base64"),
    (images(), b'{"image": null}', "line 1: column 'image' is not the bytes of an image"),
]


@pytest.mark.parametrize(("run", "data", "message"), WRONG_LINES)
def test_wrong_lines_are_one_line(run: Config, data: bytes, message: str) -> None:
    with pytest.raises(InputError) as error:
        piped(run, data)
    assert message in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_wrong_files_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    (tmp_path / "text.csv").touch()
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "other.parquet")
    pq.write_table(pa.table({"sentence": [None, "a"]}), tmp_path / "nothing.parquet")
    for run, name, message in (
        (texts(), "none.txt", "none.txt: no such file"),
        (texts(), "none.parquet", "none.parquet: no such file"),
        (images(), "none.png", "none.png: no such file"),
        (images(), ".", "cannot be read (Is a directory)"),
        (texts(), "empty.txt", "empty.txt: there are no records"),
        (texts(), "text.tsv", "unknown suffix; allowed: .csv, .jsonl, .parquet, .txt or -"),
        (texts(), "text.csv", "text.csv: it is empty; allowed: a line with the names of columns"),
        (texts(), "bad.parquet", "bad.parquet cannot be read as a parquet file"),
        (texts(), "other.parquet", "has no column 'sentence'; its columns: 'text'"),
        (texts(), "nothing.parquet", "row 0 (counted from 0): column 'sentence' is not a text"),
    ):
        with pytest.raises(InputError) as error:
            read_records([str(tmp_path / name)], run, Terminal())
        assert message in str(error.value)
        assert len(str(error.value).splitlines()) == 1


def test_a_terminal_is_not_waited_for() -> None:
    with pytest.raises(InputError, match="there is nothing to predict; give files, pipe records into"):
        read_records([], texts(), Terminal(b"typed"))
    assert read_records(["-"], texts(), Terminal(b"typed")) == [Record("1", ("typed",))]


def test_the_id_column_is_the_runs_own() -> None:
    run = load(None, ["model.task=text", "data.id_column=number"])
    line = json.dumps({"sentence": "a", "number": 12, "id": "no"}).encode()
    assert piped(run, line) == [Record("12", ("a",))]
    rows = load(None, ["model.task=text", "data.id_column=#row"])
    assert piped(rows, line) == [Record("1", ("a",))]
