"""A run's folder: made whole or not at all, continued only as what it is, by one process at a time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny_world
from tiny_world import Quiet, World, made, started, trained

from fedsgt.build.prepare import describe, prepare
from fedsgt.build.train import train
from fedsgt.config import Config
from fedsgt.errors import InputError
from fedsgt.runs.description import Description
from fedsgt.runs.folder import check_config, create_run, find_runs, open_run, read_run
from fedsgt.stack import profile
from fedsgt.store import Folder


def error_of(run: Config, path: Path) -> str:
    with pytest.raises(InputError) as caught:
        train(run, path, Quiet())
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(scope="module")
def done(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "done"
    trained(path, images.config("grouping.groups=2"))
    return path


CHANGED = {
    "training.epochs=5": "training.epochs: 1 -> 5",
    "training.seed=3": "training.seed: 0 -> 3",
    "model.max_length=9": "model.max_length: not given -> 9",
    "plan.kind=tree": "plan.kind: 'rotations' -> 'tree'",
    "data.alpha=0.7": "data.alpha: 0.3 -> 0.7",
    "peft.alpha=2": "peft.alpha: 16.0 -> 2.0",
    "store.url=memory://x": "store.url: not given -> 'memory://x'",
}


@pytest.mark.parametrize("change", CHANGED)
def test_another_configuration_is_refused_by_key_old_and_new(images: World, done: Path, change: str) -> None:
    message = error_of(images.config("grouping.groups=2", change), done)
    assert message.startswith(f"{done}: ")
    assert f"({CHANGED[change]})" in message


def test_several_changes_are_all_named(images: World, done: Path) -> None:
    message = error_of(images.config("grouping.groups=2", "training.epochs=5", "peft.rank=3"), done)
    assert "(peft.rank: 2 -> 3; training.epochs: 1 -> 5)" in message


@pytest.mark.parametrize(
    "change",
    ["engine.workers=7", "serving.strategy=long", "serving.port=99", "unlearning.retrain=now"],
)
def test_how_it_is_carried_out_and_served_may_change(images: World, done: Path, change: str) -> None:
    quiet = Quiet()
    folder = train(images.config("grouping.groups=2", change), done, quiet)
    assert quiet.modules == []
    section, _, key = change.partition("=")[0].partition(".")
    assert str(getattr(getattr(folder.config, section), key)) == change.partition("=")[2]


def test_defaults_are_the_same_when_given(images: World, done: Path) -> None:
    written, quiet = (done / "run.json").read_bytes(), Quiet()
    folder = train(images.config("grouping.groups=2", "peft.alpha=16", "training.clip=1"), done, quiet)
    assert quiet.modules == [], "nothing is trained again"
    assert (done / "run.json").read_bytes() == written
    assert folder.live().position == open_run(done).live().position
    assert {entry.key for entry in folder.live().modules()} == set(folder.description.keys.values())


def test_a_run_reads_as_it_was_written(images: World, tmp_path: Path) -> None:
    prepared, folder = started(tmp_path / "run", images.config())
    assert open_run(tmp_path / "run") == folder
    assert folder.config == prepared.run
    assert folder.description.difference(describe(prepared)) is None
    assert folder.description.plan_made() == prepared.plan
    grouping = folder.description.grouping_made()
    assert grouping.group_of.tolist() == prepared.grouping.group_of.tolist()
    again = describe(prepare(folder.config, folder.description), folder.description)
    assert folder.description.difference(again) is None
    assert again == folder.description, "keys from the file's settings are those of the given ones"
    for target in prepared.targets:
        assert folder.description.chain(target.groups) == (*target.parents, target.key)


@pytest.fixture
def own(images: World, tmp_path: Path) -> tuple[Path, Config]:
    """A run whose data and backbone can be changed under it."""
    data, model = tmp_path / "data", tmp_path / "model"
    tiny_world.write_rows(data, images.rows, "image")
    shutil.copytree(images.folder / "vit", model)
    run = images.config("grouping.groups=2", f"data.source={data}", f"model.backbone={model}")
    create_run(tmp_path / "run", run, describe(prepare(run)))
    return tmp_path / "run", run


def test_changed_data_are_named_by_client(images: World, own: tuple[Path, Config]) -> None:
    path, run = own
    shutil.rmtree(run.data.source)
    row = next(row for row in images.rows if row.client == "c2")
    tiny_world.write_rows(Path(run.data.source), images.instead(row, label=(row.label + 1) % 3).rows, "image")
    message = error_of(run, path)
    assert message.startswith(
        f"{path}: the data of client c2 changed since this run was made; give another folder with -o"
    )
    assert row.id not in message


def test_a_changed_backbone_is_found(own: tuple[Path, Config]) -> None:
    path, run = own
    shutil.rmtree(run.model.backbone)
    tiny_world.save_models(path.parent / "other", seed=6)
    shutil.copytree(path.parent / "other" / "vit", run.model.backbone)
    assert "the backbone's weights changed" in error_of(run, path)


def test_another_profile_is_found(own: tuple[Path, Config], monkeypatch: pytest.MonkeyPatch) -> None:
    path, run = own
    real = profile.describe
    monkeypatch.setattr(profile, "describe", lambda device: {**real(device), "mkl": "OTHER", "new": "1"})
    mkl = real("cpu")["mkl"]
    # A field that only a later version knows is not the run's.
    assert f"the execution profile changed (mkl: {mkl} -> OTHER)" in error_of(run, path)


# Folders that are not runs.


def test_a_folder_that_is_no_run_is_left_alone(images: World, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert error_of(images.config(), tmp_path) == (
        f"{tmp_path}: is no run, and has other files in it; give another folder with -o"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_file_in_its_place(images: World, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    assert str(tmp_path / "run") in error_of(images.config(), tmp_path / "run")
    assert (tmp_path / "run").read_text() == "mine"


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such run"):
        open_run(tmp_path / "run")


def test_an_empty_folder_will_do(images: World, tmp_path: Path) -> None:
    assert check_config(tmp_path, images.config()) is None
    path = tmp_path / "run"
    path.mkdir()
    started(path, images.config())
    assert find_runs(tmp_path) == [path]


# One at a time.

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "a+")
fcntl.flock(file, fcntl.LOCK_EX)
print(flush=True)
input()
"""


def test_two_processes_at_once(images: World, done: Path) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, done / "lock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert other.stdout is not None
        other.stdout.readline()
        message = error_of(images.config("grouping.groups=2"), done)
        assert message == f"{done}: another process is working on this run; wait for it"
    finally:
        other.send_signal(signal.SIGKILL)
        other.communicate()
    train(images.config("grouping.groups=2"), done, Quiet())


def test_the_lock_is_for_changing_not_for_reading(done: Path) -> None:
    with open_run(done).locked():
        assert made(open_run(done))
        with pytest.raises(InputError, match="another process"), open_run(done).locked():
            pass
    with open_run(done).locked():
        pass


# Whole or not at all.


class CrashError(BaseException):
    """No handler for ordinary errors runs when a process is killed."""


def test_a_crash_while_it_is_made_leaves_nothing_visible(
    prepared: tuple[Config, Description], tmp_path: Path
) -> None:
    """The process is killed at each of its steps in turn."""
    run, description = prepared
    crashed = [step for step in range(1, 40) if crashes(tmp_path / str(step), step, run, description)]
    assert crashed == list(range(1, len(crashed) + 1))
    assert 8 < len(crashed) < 39


def crashes(folder: Path, step: int, run: Config, description: Description) -> bool:
    """Whether it had so many steps; if so, nothing or all of the run is there, and the next attempt works."""
    with pytest.MonkeyPatch.context() as patch:
        # A killed process clears nothing up.
        patch.setattr(shutil, "rmtree", lambda *arguments, **options: None)
        count_down(patch, step)
        try:
            create_run(folder / "run", run, description)
        except CrashError:
            crashed = True
        else:
            crashed = False
    if (folder / "run").exists():
        assert open_run(folder / "run").description.difference(description) is None
    else:
        assert find_runs(folder) == []
        assert create_run(folder / "run", run, description).description.difference(description) is None
    assert not list(folder.rglob(".*"))
    return crashed


@pytest.fixture(scope="module")
def prepared(images: World) -> tuple[Config, Description]:
    run = images.config()
    return run, describe(prepare(run))


def count_down(patch: pytest.MonkeyPatch, steps: int) -> None:
    """The process ends at so many calls of the file system."""
    left = [steps]

    def counted(inner: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                raise CrashError
            return inner(*arguments, **options)

        return call

    for name in ("mkdir", "fsync", "replace", "rename", "unlink", "open"):
        patch.setattr(os, name, counted(getattr(os, name)))


def test_what_a_killed_attempt_left_is_taken_over_and_cleared(
    prepared: tuple[Config, Description], tmp_path: Path
) -> None:
    left = tmp_path / ".run.new"
    left.mkdir()
    (left / "run.toml").write_text("half of ano")
    (left / ".0123456789abcdef.run.json").write_text("half")
    folder = create_run(tmp_path / "run", *prepared)
    assert folder.config == prepared[0]
    folder.ledger.close()
    names = ["ledger.sqlite", "lock", "run.json", "run.toml"]
    assert sorted(path.name for path in folder.path.iterdir()) == names


def test_an_occupied_place_is_one_line_and_stays_what_it_is(
    prepared: tuple[Config, Description], tmp_path: Path
) -> None:
    run, description = prepared
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").write_text("mine")
    with pytest.raises(InputError, match=r"^[^\n]*run: the run's folder cannot be made \([^\n]*\)$"):
        create_run(tmp_path / "run", run, description)
    assert [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*"))] == [
        "run",
        "run/mine",
    ]


def test_two_that_make_the_same_run_at_once(prepared: tuple[Config, Description], tmp_path: Path) -> None:
    """The second finds the first at work, and takes nothing of it away."""
    run, description = prepared
    inner = Folder.write
    refused: list[str] = []

    def write(self: Folder, name: str, data: bytes) -> None:
        if not refused:
            refused.append(name)
            with pytest.raises(InputError, match="another process"):
                create_run(tmp_path / "run", run, description)
        inner(self, name, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Folder, "write", write)
        assert create_run(tmp_path / "run", run, description).description.difference(description) is None
    assert refused
    assert not list(tmp_path.rglob(".*"))


def test_opening_sweeps_abandoned_work_if_the_run_can_be_written(
    done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shutil.copytree(done, tmp_path / "run")
    left = path / "work" / "0123456789abcdef" / "record"
    left.parent.mkdir(parents=True)
    left.write_text("secret")
    read_run(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda place, mode: False)
        open_run(path)
    assert left.exists()
    with monkeypatch.context() as patch:  # such as another user's folder: no reason not to open the run
        patch.setattr(os, "unlink", lambda *arguments, **named: Path("/proc/version").write_text("x"))
        open_run(path)
    assert left.exists()
    open_run(path)
    assert not (path / "work").exists()
