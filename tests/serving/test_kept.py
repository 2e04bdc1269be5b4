"""Kept probabilities: read back with their labels, never damaged ones, and never beside a dead module."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from paper_run import delete, describe, fill, paper_run

from fedsgt.data import Dataset, Record
from fedsgt.files.tensors import pack
from fedsgt.runs.folder import RunFolder
from fedsgt.serving.kept import Kept, file_of, keep, kept_files, read_kept
from fedsgt.store import tensor_hash

FILE, OTHER = "test-0123456789abcdef.safetensors", "test-fedcba9876543210.safetensors"
KEPT = Kept(np.array([[0.25, 0.75], [0.5, 0.5]], dtype=np.float32), (1, 0))


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = paper_run(tmp_path / "run", describe([(0, 1), (1, 0)], [5, 5]))
    fill(made)
    return made


def key(folder: RunFolder, *groups: int) -> str:
    return folder.description.keys[groups]


def place(folder: RunFolder, *groups: int, file: str = FILE) -> Path:
    return folder.path / "modules" / key(folder, *groups) / file


def test_what_is_kept_is_read_back(folder: RunFolder) -> None:
    assert read_kept(folder, key(folder, 0), FILE) is None
    keep(folder, key(folder, 0), FILE, KEPT)
    found = read_kept(folder, key(folder, 0), FILE)
    assert found is not None
    assert found.probabilities.dtype == np.float32
    assert np.array_equal(found.probabilities, KEPT.probabilities)
    assert found.labels == KEPT.labels


def test_a_file_of_an_older_version_has_no_labels(folder: RunFolder) -> None:
    tensors = {"probabilities": KEPT.probabilities}
    place(folder, 0).write_bytes(pack(tensors, tensor_hash(tensors)))
    found = read_kept(folder, key(folder, 0), FILE)
    assert found is not None
    assert found.labels is None


@pytest.mark.parametrize("damage", [lambda data: data[:-1] + b"\x55", lambda data: b"torn", lambda data: b""])
def test_a_damaged_file_counts_as_none(folder: RunFolder, damage: object) -> None:
    keep(folder, key(folder, 0), FILE, KEPT)
    assert callable(damage)
    place(folder, 0).write_bytes(damage(place(folder, 0).read_bytes()))
    assert read_kept(folder, key(folder, 0), FILE) is None


def test_nothing_is_kept_beside_a_dead_module(folder: RunFolder) -> None:
    dead = place(folder, 0)
    keep(folder, key(folder, 0), FILE, KEPT)
    keep(folder, key(folder, 1), FILE, KEPT)
    delete(folder, 0)
    assert not dead.exists(), "it goes with its module"
    keep(folder, dead.parent.name, FILE, KEPT)
    assert not dead.parent.exists()
    assert read_kept(folder, key(folder, 1), FILE) is not None


def test_only_files_that_all_modules_have_count(folder: RunFolder) -> None:
    both = [key(folder, 0), key(folder, 1)]
    assert kept_files(folder, both) == []
    keep(folder, both[0], FILE, KEPT)
    assert (kept_files(folder, both), kept_files(folder, both[:1])) == ([], [FILE])
    keep(folder, both[1], FILE, KEPT)
    place(folder, 0, file="test-stray.safetensors").write_bytes(b"x")
    place(folder, 1, file="test-stray.safetensors").write_bytes(b"x")
    assert kept_files(folder, both) == [FILE]
    for one in both:
        keep(folder, one, OTHER, KEPT)
    assert kept_files(folder, both) == [FILE, OTHER]


def test_other_test_records_have_another_name() -> None:
    records = tuple(Record(name, (b"content",), label) for name, label in (("a", 0), ("b", 1)))
    test = Dataset(records, 2)
    name = file_of(test, 2)
    assert name == file_of(Dataset(records, 2), 2)
    others = [
        (replace(test, records=records[:1]), 2),
        (replace(test, records=(records[0], Record("b", (b"content",), 0))), 2),
        (replace(test, records=(records[0], Record("b", (b"other",), 1))), 2),
        (replace(test, records=(records[0], Record("c", (b"content",), 1))), 2),
        (test, 3),
    ]
    assert name not in {file_of(*other) for other in others}
