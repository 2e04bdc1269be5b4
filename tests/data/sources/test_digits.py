"""The embedded digits: always the same bytes, in parts that do not overlap."""

import hashlib
import io
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from dataset_columns import ids_of, owners_of

from fedsgt.data import Columns, load_dataset
from fedsgt.errors import InputError

datasets_of_sklearn = import_module("sklearn.datasets")
COLUMNS = Columns(("ignored",))


def test_parts_share_nothing_and_leave_nothing_out() -> None:
    train, test, public = (
        load_dataset("digits", COLUMNS, split=part) for part in ("train", "test", "public")
    )
    assert [len(part) for part in (train, test, public)] == [1079, 359, 359]
    assert len({*ids_of(train.records), *ids_of(test.records), *ids_of(public.records)}) == 1797
    assert ids_of(train.records)[:4] == ("digits-0000", "digits-0001", "digits-0002", "digits-0005")
    assert ids_of(test.records)[:2] == ("digits-0004", "digits-0009")
    assert ids_of(public.records)[:2] == ("digits-0003", "digits-0008")
    assert (train.label_count, train.label_names) == (10, tuple("0123456789"))
    assert {*owners_of(train.records)} == {None}


def test_bytes_never_change_between_versions() -> None:
    digests = b"".join(record.digest for record in load_dataset("digits", COLUMNS).records)
    expected = "9b95ea8c25e9fb325e45f9aaa061aa9f6a5047d8de22421aeaea595e07be0294"
    assert hashlib.sha256(digests).hexdigest() == expected


def test_scikit_learn_is_not_imported_but_would_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing it takes a second; a version that keeps the file elsewhere is asked for the digits."""
    code = (
        "import sys; from fedsgt.data import Columns, load_dataset\n"
        "load_dataset('digits', Columns(('ignored',))); print('sklearn' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"
    read = load_dataset("digits", COLUMNS)
    monkeypatch.setattr("fedsgt.data.sources.digits._FILE", Path("moved.csv.gz"))
    assert load_dataset("digits", COLUMNS) == read


def test_images_and_labels_are_those_of_scikit_learn() -> None:
    image = import_module("PIL.Image")
    source = datasets_of_sklearn.load_digits()
    for record in load_dataset("digits", COLUMNS, split="test").records:
        (content,), index = record.content, int(record.id.removeprefix("digits-"))
        assert isinstance(content, bytes)
        picture = image.open(io.BytesIO(content))
        assert (picture.format, picture.mode, picture.size) == ("PPM", "L", (8, 8))
        exact = source.data[index] * 255 / 16
        assert max(abs(a - b) for a, b in zip(picture.tobytes(), exact, strict=True)) <= 0.5
        assert record.label == source.target[index]
        assert type(record.label) is int


def test_a_limit_takes_some_of_them() -> None:
    everything = load_dataset("digits", COLUMNS)
    some = load_dataset("digits", COLUMNS, limit=50)
    assert len(some) == 50
    assert set(some.records) < set(everything.records)
    assert [*some.records] == sorted(some.records, key=lambda record: record.id)


def test_the_test_split_may_be_named() -> None:
    assert ids_of(load_dataset("digits", COLUMNS, split="test", test="public").records)[0] == "digits-0003"
    with pytest.raises(InputError, match="'digits' has no part validation; its parts: train, public, test"):
        load_dataset("digits", COLUMNS, split="test", test="validation")


def test_digits_have_ten_labels_and_no_owners() -> None:
    assert load_dataset("digits", COLUMNS, labels=10).label_count == 10
    with pytest.raises(InputError, match=r"data\.labels is 9, but digits has 10"):
        load_dataset("digits", COLUMNS, labels=9)
    with pytest.raises(
        InputError, match=r"no column 'client': .* allowed for data\.partition: iid or dirich"
    ):
        load_dataset("digits", Columns(("image",), client="client"))
