"""All mistakes of a training are told at once, without torch, and nothing is changed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_world import World, started, trained

from fedsgt.build.precheck import all_at_once, precheck
from fedsgt.config import load
from fedsgt.errors import InputError


def told(path: Path, *overrides: str, world: World | None = None) -> list[str]:
    config = load(None, list(overrides)) if world is None else world.config(*overrides)
    try:
        precheck(config, path)
    except InputError as error:
        return list(error.mistakes) or [str(error)]
    return []


def test_nothing_is_said_of_a_training_that_can_begin_or_go_on(tmp_path: Path, images: World) -> None:
    run = tmp_path / "runs" / "run"
    assert told(run, world=images) == told(run) == []
    assert not run.parent.exists()
    trained(run, images.config())
    assert told(run, world=images) == []


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = told(
        tmp_path / "file" / "run",
        "model.backbone=./nowhere",
        "model.device=cuda:7",
        "store.url=gopher://x",
        "data.label_column=id",
        f'data.erased=["{tmp_path}/none"]',
    )
    expected = [
        "store.url: a store of kind 'gopher' cannot be opened",
        f"{tmp_path}/none: no such run",
        "columns are 'id', 'id', 'image'",
        "model.backbone: './nowhere' does not exist",
        "model.device: 'cuda:7' is not on this machine",
        f"{tmp_path}/file/run: the run's folder cannot be made ({tmp_path}/file is no folder)",
    ]
    has_gpu = any(map(os.path.exists, ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")))
    assert len(found) == len(expected) - has_gpu
    for line, start in zip(
        found, [line for line in expected if not (has_gpu and "cuda" in line)], strict=True
    ):
        assert line.startswith(start)


def test_a_run_of_another_configuration(tmp_path: Path, images: World) -> None:
    trained(tmp_path / "run", images.config())
    (line,) = told(tmp_path / "run", "training.epochs=2", world=images)
    assert "holds a run of another configuration (training.epochs: 1 -> 2)" in line


def test_remote_clients_need_a_server(tmp_path: Path) -> None:
    found = told(tmp_path / "run", "data.partition=remote")
    assert [line.partition(":")[0] for line in found] == ["data.partition is remote", "engine.server"]


def test_a_store_in_memory_is_not_shared(tmp_path: Path) -> None:
    (line,) = told(tmp_path / "run", "store.url=memory://x")
    assert "memory is not shared with worker processes; set engine.workers = 0" in line


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    (line,) = told(tmp_path / "locked" / "run")
    assert line.endswith(f"cannot be made (no right to write into {tmp_path / 'locked'})")


def test_torch_is_not_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from fedsgt.build.precheck import precheck; "
        "from fedsgt.config import load; precheck(load(None, []), Path('run')); "
        "print([name for name in ('torch', 'transformers', 'datasets', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_source_that_can_never_be_rewritten_is_told_for_new_runs_only(
    tmp_path: Path, images: World
) -> None:
    (line,) = told(tmp_path / "digits", "data.erase=rewrite")
    assert line.startswith("data.erase is \"rewrite\", but data.source 'digits' cannot be rewritten")
    rows = ["data.id_column=#row", "data.erase=rewrite"]
    (line,) = told(tmp_path / "run", *rows, world=images)
    assert line.startswith('data.erase is "rewrite", but the ids are row numbers')
    started(tmp_path / "run", images.config(*rows))  # as an earlier version made it
    assert told(tmp_path / "run", *rows, world=images) == []


def told_with_settings(*overrides: str) -> list[str]:
    """Return the lines of the error that a training with these settings would begin with."""
    with pytest.raises(InputError) as error, all_at_once():
        load(None, overrides)
    return error.value.lines()


def test_mistakes_in_settings_do_not_hide_those_of_data_and_model() -> None:
    lines = told_with_settings("training.epochs=0", "data.source=./nowhere.csv", "model.backbone=./nothing")
    assert lines[0] == "3 mistakes"
    assert lines[1].startswith("  training.epochs: 0 is not allowed")
    assert lines[2].startswith("  data.source './nowhere.csv' does not exist")
    assert lines[3].startswith("  model.backbone: './nothing' does not exist")


def test_nothing_is_said_about_settings_that_stand_in_for_wrong_ones() -> None:
    """Without its own source a run would be one on digits, which are no texts."""
    assert told_with_settings("data.source=./x.csv", "data.limit=0", "model.task=text", "model.rank=3") == [
        "2 mistakes",
        "  data.limit: 0 is not allowed; it should be at least 1",
        "  model.rank: unknown key (allowed: backbone, task, device, image_size, mean, std, max_length, "
        "too_long)",
    ]
    assert told_with_settings("data.limit=0") == ["data.limit: 0 is not allowed; it should be at least 1"]


def test_contradictions_do_not_hide_them_either() -> None:
    lines = told_with_settings("plan.shards=99", "model.backbone=./nothing")
    assert [line.split(":")[0].strip() for line in lines] == ["2 mistakes", "plan.shards", "model.backbone"]
