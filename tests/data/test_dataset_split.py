"""Records that are kept for testing where a source has no part for that: each id decides for itself."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from dataset_columns import ids_of
from hypothesis import given, settings
from hypothesis import strategies as st
from record_files import write_as

from fedsgt.data import Columns, load_dataset
from fedsgt.data.dataset import Choice, is_kept_for_test
from fedsgt.errors import InputError

TEXT = Columns(("text",))
ids = st.lists(st.text(min_size=1), min_size=1, max_size=30, unique=True)
shares = st.floats(0.01, 0.99)


def test_the_split_of_known_ids_never_changes() -> None:
    """Runs depend on it: with another split, records that were trained on would be tested on."""
    kept = [i for i in range(40) if is_kept_for_test(f"r{i}", 0.2)]
    assert kept == [2, 7, 10, 17, 24, 30]


@given(ids, ids, shares)
def test_no_other_record_matters(some: list[str], others: list[str], share: float) -> None:
    together = list(dict.fromkeys([*some, *others]))
    for names in (some, together, together[::-1]):
        for test in (True, False):
            rows, kept = Choice(None, share, test).rows(names)
            found = {names[row] for row in rows}
            assert found == {name for name in names if is_kept_for_test(name, share) is test}
            assert kept == sum(is_kept_for_test(name, share) for name in names)


@given(ids, shares, shares)
def test_a_larger_share_only_adds(names: list[str], one: float, other: float) -> None:
    less, more = sorted((one, other))
    assert all(is_kept_for_test(name, more) for name in names if is_kept_for_test(name, less))


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5])
def test_the_share_is_about_what_was_asked_for(share: float) -> None:
    kept = sum(is_kept_for_test(f"record-{i}", share) for i in range(10_000))
    assert abs(kept / 10_000 - share) < 0.02


@settings(max_examples=20, deadline=None)
@given(ids.filter(lambda names: len(names) > 3), shares)
def test_each_record_is_in_one_part_also_with_limits(names: list[str], share: float) -> None:
    kept = [name for name in names if is_kept_for_test(name, share)]
    if not kept or any(not name.isprintable() for name in names):
        return
    with TemporaryDirectory() as folder:
        rows = [{"id": name, "text": "x", "label": 0} for name in names]
        source = str(write_as("jsonl", Path(folder), rows))
        train = load_dataset(source, TEXT, labels=2, test_share=share)
        test = load_dataset(source, TEXT, split="test", labels=2, test_share=share)
        assert sorted([*ids_of(train.records), *ids_of(test.records)]) == sorted(names)
        assert (set(ids_of(test.records)), train.split_off) == (set(kept), len(kept))
        # A limit takes of its own part only.
        one = load_dataset(source, TEXT, split="test", labels=2, test_share=share, limit=1)
        assert set(ids_of(one.records)) < {*kept, ""}
        few = load_dataset(source, TEXT, labels=2, test_share=share, limit=2)
        assert set(ids_of(few.records)) <= set(ids_of(train.records))
        assert len(few) == min(2, len(train))


def test_no_record_to_test_on_is_an_error(tmp_path: Path) -> None:
    names = [f"r{i}" for i in range(3) if not is_kept_for_test(f"r{i}", 0.2)]
    source = str(write_as("csv", tmp_path, [{"id": name, "text": "x", "label": 0} for name in names]))
    with pytest.raises(
        InputError, match=r"none of its \d records is kept for testing \(data\.test_share is 0\.2\)"
    ):
        load_dataset(source, TEXT, split="test", labels=2, test_share=0.2)
