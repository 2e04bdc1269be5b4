"""Files of JSON lines: an object a line, and what is wrong is named by its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dataset_columns import contents_of, ids_of

from fedsgt.data import Columns, load_dataset
from fedsgt.data.sources.json_lines import jsonl_columns, read_jsonl
from fedsgt.errors import InputError

TEXT = Columns(("sentence",))
GOOD = '{"id": "a", "sentence": "A", "label": 0}'


def written(folder: Path, data: bytes | str) -> str:
    path = folder / "x.jsonl"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return str(path)


def test_objects_are_read_a_line_each(tmp_path: Path) -> None:
    lines = [
        '\ufeff{"id": "007", "sentence": "two\\nlines \u2028 here", "label": 1, "more": {"x": [null]}}\r',
        "",
        '{"label": "0", "sentence": "A", "id": 7}',
    ]
    source = written(tmp_path, "\n".join(lines))
    table = load_dataset(source, TEXT, labels=2)
    assert ids_of(table.records) == ("007", "7")
    assert contents_of(table.records) == (("two\nlines \u2028 here",), ("A",))
    assert table.labels == (1, 0)
    assert jsonl_columns(Path(source)) == ["id", "sentence", "label", "more"]
    rows = load_dataset(source, Columns(("sentence",), id="#row"), labels=2)
    assert ids_of(rows.records) == ("000000000", "000000001")


def test_columns_that_may_be_missing(tmp_path: Path) -> None:
    path = Path(written(tmp_path, f'{{"sentence": "B"}}\n{GOOD}\n'))
    assert read_jsonl(path, ["sentence"], ["id"]).values("id") == [None, "a"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{no", ", line 2: not JSON (Expecting property name enclosed in double quotes at column 2)"),
        ("nothing", ", line 2: not JSON (Expecting value at column 1)"),
        ("[1]", ", line 2: not a JSON object; allowed: an object for each record"),
        ("3", ", line 2: not a JSON object"),
        ("[" * 100_000, ", line 2: not JSON that can be read (nested too deeply)"),
        ('{"id": ' * 100_000, ", line 2: not JSON that can be read (nested too deeply)"),
        ('{"id": "a", "id": "b"}', ", line 2: not JSON that can be read (a key stands twice in one object"),
        ('{"id": ' + "9" * 5000 + "}", ", line 2: not JSON that can be read (Exceeds the limit"),
        ('{"id": "b", "label": 0}', ", line 2 has no column 'sentence'; its columns: 'id', 'label'; set"),
        ('{"sentence": "B", "label": 0}', ", line 2 has no column 'id'; its columns: 'sentence', 'label'"),
        ("{}", ", line 2 has no column 'id'; its columns: none"),
        ('{"id": null, "sentence": "B", "label": 0}', ": column 'id' is missing in line 2"),
        ('{"id": "", "sentence": "B", "label": 0}', ": column 'id' is empty in line 2"),
        ('{"id": 1.5, "sentence": "B", "label": 0}', ": column 'id' is of type float in line 2; allowed"),
        ('{"id": true, "sentence": "B", "label": 0}', ": column 'id' is of type bool in line 2"),
        ('{"id": ["a"], "sentence": "B", "label": 0}', ": column 'id' is of type list in line 2"),
        ('{"id": "a", "sentence": "B", "label": 0}', ": column 'id' has the id 'a' in lines 1 and 2"),
        ('{"id": "\\ud800", "sentence": "B", "label": 0}', ": column 'id' has half of a surrogate pair in"),
        (
            '{"id": "b", "sentence": "\\udc00", "label": 0}',
            ": column 'sentence' has half of a surrogate pair",
        ),
        ('{"id": "b", "sentence": 5, "label": 0}', ": column 'sentence' is of type int in line 2"),
        (
            '{"id": "b", "sentence": {"bytes": 5}, "label": 0}',
            ": column 'sentence' is of type dict in line 2",
        ),
        ('{"id": "b", "sentence": null, "label": 0}', ": record 'b' has nothing in column 'sentence'"),
        ('{"id": "b", "sentence": "B", "label": null}', ": record 'b' has no label; allowed"),
        ('{"id": "b", "sentence": "B", "label": true}', ": record 'b' has the label True"),
        ('{"id": "b", "sentence": "B", "label": 1.0}', ": record 'b' has the label 1.0"),
        ('{"id": "b", "sentence": "B", "label": {"a": [1]}}', ": record 'b' has the label {'a': [1]}"),
        ('{"id": "b", "sentence": "B", "label": "\\ud800"}', ": record 'b' has the label '\\ud800'"),
    ],
)
def test_what_is_wrong_is_named_by_file_and_line(tmp_path: Path, line: str, problem: str) -> None:
    source = written(tmp_path, f"{GOOD}\n{line}\n")
    with pytest.raises(InputError) as caught:
        load_dataset(source, TEXT, labels=2)
    assert str(caught.value).startswith(source + problem)
    assert "\n" not in str(caught.value)
    str(caught.value).encode()


@pytest.mark.parametrize(("data", "line"), [(b'{"a": "\xff"}', 1), (b"{}\n\n\0", 3), (b"{}\n\xff", 2)])
def test_what_is_no_text(tmp_path: Path, data: bytes, line: int) -> None:
    with pytest.raises(InputError, match=rf"x\.jsonl, line {line}: (not text in UTF-8|a NUL byte)"):
        load_dataset(written(tmp_path, data), TEXT, labels=2)


def test_a_label_of_any_length_is_cut_in_the_message(tmp_path: Path) -> None:
    line = json.dumps({"id": "b", "sentence": "B", "label": "x" * 10_000})
    with pytest.raises(InputError) as caught:
        load_dataset(written(tmp_path, line), TEXT, labels=2)
    assert len(str(caught.value)) < 500


def test_a_file_without_lines_is_what_a_deletion_leaves(tmp_path: Path) -> None:
    assert load_dataset(written(tmp_path, ""), TEXT, labels=2).records == ()
