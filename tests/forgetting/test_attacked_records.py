"""The attacked records: deleted ones that are at hand, and unseen ones of the same labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from dataset_columns import contents_of, owners_of
from forgetting_world import QUICK, attacked_of, config_of, facts, noise
from tiny_world import Quiet, World, write_rows

from fedsgt.build.train import train
from fedsgt.data import labels_of
from fedsgt.errors import InputError
from fedsgt.forgetting.measure import measure
from fedsgt.runs.folder import RunFolder
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn


def test_deleted_and_unseen_records_are_matched(world: World, folder: RunFolder) -> None:
    unlearn(folder, [Deletion("c0", slices=(0,)), Deletion("c2")])
    attacked = attacked_of(folder)
    rows = {row.content: row for row in world.rows}
    unseen = {row.content for row in noise(90, 1020, "u")}
    contents, labels = contents_of(attacked.records), labels_of(attacked.records)
    deleted, others = contents[: attacked.count], contents[attacked.count :]
    assert len(deleted) == attacked.deleted == len(set(deleted))
    owners = [rows[content[0]].client for content in deleted]
    assert set(owners) == {"c0", "c2"}
    times = len(others) // len(deleted)
    assert list(owners_of(attacked.records)) == owners * (times + 1)
    assert labels == labels[: attacked.count] * (times + 1)
    assert {content[0] for content in others} <= unseen


def test_a_source_without_the_deleted_records_needs_a_file(
    world: World, folder: RunFolder, tmp_path: Path
) -> None:
    """A copy of the whole source will do: records that were not deleted, or are there twice, are not used."""
    own = write_rows(tmp_path / "own", world.rows, "image")
    stranger = replace(noise(1, 5, "s")[0], client="c1")
    copy = write_rows(tmp_path / "copy", (*world.rows, stranger), "image") / "train.parquet"
    config = world.config(*config_of(world, f"data.source={own}", "data.erase=rewrite"))
    rewritten = train(config, tmp_path / "rewritten", Quiet())
    for run in (folder, rewritten):
        unlearn(run, [Deletion("c3", slices=(0,)), Deletion("c1", records=("r001", "r005"))])
    assert len(pq.read_table(own / "train.parquet")) < len(world.rows)
    with pytest.raises(InputError, match=r"not in its source any more.*--deleted"):
        measure(rewritten, **QUICK)
    found = facts(measure(folder, **QUICK))
    assert facts(measure(rewritten, deleted=copy, **QUICK)) == found
    assert facts(measure(folder, deleted=copy, **QUICK)) == found
    with pytest.raises(InputError, match="no record that was deleted"):
        measure(rewritten, deleted=own / "train.parquet", **QUICK)
    with pytest.raises(InputError, match="does not exist"):
        measure(rewritten, deleted=tmp_path / "none.parquet", **QUICK)


def test_a_copy_that_is_retained_is_not_attacked(world: World, tmp_path: Path) -> None:
    """A test record that a client holds or held is not taken for unseen either."""
    twin = replace(world.rows[0], id="twin", client="c1")
    other = replace(world, rows=(*world.rows, twin))
    write_rows(tmp_path / "test", (*noise(30, 1020, "u"), *world.rows[:20]), "image")
    config = other.config(f"data.test={tmp_path / 'test' / 'train.parquet'}")
    folder = train(config, tmp_path / "run", Quiet())
    unlearn(folder, [Deletion("c0")])
    attacked = attacked_of(folder)
    assert (attacked.deleted, attacked.duplicates) == (12, 1)
    contents = [content[0] for content in contents_of(attacked.records)]
    assert world.rows[0].content not in contents
    held = {row.content for row in world.rows}
    assert held.isdisjoint(contents[attacked.count :])


def test_no_unseen_record_of_such_a_label(images: World, tmp_path: Path) -> None:
    """In this world, clients hold all test records."""
    folder = train(images.config("grouping.groups=2"), tmp_path / "run", Quiet())
    unlearn(folder, [Deletion("c0", slices=(0,))])
    with pytest.raises(InputError, match="no test record that clients never held"):
        measure(folder, **QUICK)
