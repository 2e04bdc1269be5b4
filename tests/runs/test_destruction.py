"""Destruction: everything made of anything dead goes, and nothing else."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest
from tiny_deletions import bytes_of, copied, problems, record_in, trained_run
from tiny_world import World

from fedsgt.engine.cache import ActivationCache
from fedsgt.runs.artefacts import bury_activations
from fedsgt.runs.dependencies import Dead
from fedsgt.runs.destruction import destroy, doomed, sweep
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.work import WORK, work_folder
from fedsgt.serving.export import export_sequence
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import accept, unlearn

# Modules in the top layer only, so that there are kept activations to destroy.
SETTINGS = ("peft.layers=1", "engine.trackers=[]")


@pytest.fixture(scope="module")
def source(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run(images, tmp_path_factory.mktemp("source") / "run", SETTINGS)


@pytest.fixture
def folder(source: Path, tmp_path: Path) -> RunFolder:
    return copied(source, tmp_path / "run")


def test_everything_made_of_dead_modules_goes(images: World, folder: RunFolder) -> None:
    """Activations of the slice, exports, checkpoints, metrics, figures; what else there is stays."""
    client, record = record_in(images, folder, 1)
    dead_export = export_sequence(folder, 0, None, None)
    live_export = export_sequence(folder, 0, 1, None)
    dead = next(entry for entry in folder.description.modules if 1 in entry.groups)
    alive = next(entry for entry in folder.description.modules if 1 not in entry.groups)
    tensors = folder.modules.get(dead.key)
    for key in (dead.key, alive.key):
        folder.modules.save_checkpoint(key, 1, tensors, [{"c0": 1}])
    (folder.path / "report.html").write_text("<html>")
    slices = {mark for entry in folder.description.clients for mark in entry.slices}
    assert {path.name for path in folder.cache.iterdir()} == slices
    unlearn(folder, [Deletion(client, records=(record,))])
    assert not dead_export.exists()
    assert live_export.exists()
    assert folder.modules.objects.names("rounds/") == [f"rounds/{alive.key}.safetensors"]
    assert not (folder.path / "report.html").exists()
    gone = [mark for mark in slices if not (folder.cache / mark).is_dir()]
    assert len(gone) == 1, "the slice of the record, and no other of the group"
    assert dead.key not in (folder.path / "metrics.jsonl").read_text()
    assert alive.key in (folder.path / "metrics.jsonl").read_text()
    assert problems(folder) == []


@pytest.mark.parametrize("cache", ["empty", "missing"])
def test_activations_that_nobody_has_written_yet_cannot_be_written_afterwards(
    cache: str, folder: RunFolder
) -> None:
    """A worker may hold the records when the deletion comes, and finish its first outputs only then."""
    mark = folder.description.clients[1].slices[0]
    shutil.rmtree(folder.cache / mark if cache == "empty" else folder.cache)
    unlearn(folder, [Deletion("c1", slices=(0,))])
    late = ActivationCache(folder.cache, "recipe")
    late.put(mark, [{"hidden": np.zeros((2, 2), np.float32)}])
    assert late.get(mark) is None
    assert problems(folder) == []


def test_destroyed_activations_cannot_be_written_again(folder: RunFolder) -> None:
    """A worker that is still training cannot write activations again, until the run is trained anew."""
    mark = folder.description.clients[1].slices[0]
    (kept,) = (folder.cache / mark).iterdir()
    items = [{"hidden": np.zeros((2, 2), np.float32)}]
    unlearn(folder, [Deletion("c1", slices=(0,))])
    cache = ActivationCache(folder.cache, "recipe")
    cache.put(mark, items)
    assert cache.get(mark) is None
    assert not kept.exists()
    assert (folder.cache / mark).read_bytes() == b""
    bury_activations(folder.path / "no cache yet", mark)
    assert (folder.path / "no cache yet" / mark).is_file()
    other = folder.description.clients[1].slices[1]
    cache.put(other, items)
    assert cache.get(other) is not None
    folder.sweep()
    assert not (folder.cache / mark).exists()


def condemned_slice(folder: RunFolder) -> Dead:
    """Return what is dead once a request for a slice of client c0 is in force, and nothing is destroyed."""
    accept(folder, [Deletion("c0", slices=(0,))])
    return Dead.at(folder.live())


def test_what_is_listed_is_what_is_destroyed(folder: RunFolder) -> None:
    dead = condemned_slice(folder)
    before = bytes_of(folder.path)
    listed = {artefact.name: artefact for artefact in doomed(folder, dead)}
    with folder.publishing():
        destroy(folder, dead)
    after = bytes_of(folder.path)
    gone = {name for name in before if after.get(name) != before[name]}
    assert gone == set(listed)
    (mark,) = folder.live().hit_slices()
    # Metrics lose single lines only, and an empty file stands in for destroyed activations.
    assert {name for name in after if name not in before or name in gone} == {
        f"cache/{mark}",
        "metrics.jsonl",
    }
    for name, artefact in listed.items():
        if name != "metrics.jsonl":
            assert artefact.sha256 == hashlib.sha256(before[name]).hexdigest()
            assert artefact.module is None or artefact.module in dead.modules
    assert {artefact.module for artefact in listed.values() if artefact.kind == "module"} == dead.modules


def test_destroyed_again_nothing_more_is_found(folder: RunFolder) -> None:
    """Complete a deletion a second time, as after a kill."""
    dead = condemned_slice(folder)
    shares: list[float] = []
    with folder.publishing():
        destroy(folder, dead, shares.append)
        assert shares == sorted(shares)
        assert shares[-1] == 1
        after = bytes_of(folder.path)
        assert doomed(folder, dead) == []
        destroy(folder, dead)
    assert bytes_of(folder.path) == after


def test_a_sweep_removes_what_stopped_writers_left_and_nothing_else(
    folder: RunFolder, tmp_path: Path
) -> None:
    before = bytes_of(folder.path)
    left = folder.path / ".0123456789abcdef.run.json"
    left.write_text("half")
    (tmp_path / "mine").write_text("mine")
    (folder.path / "notes").symlink_to(tmp_path / "mine")
    sweep(folder)
    assert not left.exists()
    assert (folder.path / "notes").is_symlink()
    (folder.path / "notes").unlink()
    assert bytes_of(folder.path) == before


def test_work_goes_with_a_later_deletion_only(folder: RunFolder) -> None:
    """What a process chose after the last request holds no deleted record, and its folder stays."""
    dead = condemned_slice(folder)
    with (
        work_folder(folder.path, "verification", dead.last_request) as later,
        work_folder(folder.path, "verification", dead.last_request - 1) as earlier,
    ):
        (later / "file").write_text("data")
        destroy(folder, dead)
        assert (later / "file").read_text() == "data"
        assert earlier.is_file(), "an empty one goes too: its process may be about to fill it"
        with pytest.raises(OSError, match="Not a directory"):
            (earlier / "records").mkdir()
    assert not (folder.path / WORK).exists()
