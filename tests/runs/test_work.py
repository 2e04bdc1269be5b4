"""Work folders: private, in use as long as one of their processes lives, and gone afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from fedsgt.errors import InputError
from fedsgt.runs.work import (
    WORK,
    about_work,
    destroy_work,
    held_work,
    in_use,
    sweep_work,
    work_folder,
    work_folders,
)

KILLED = """
import os, sys
from pathlib import Path
from typing import Any
from fedsgt.runs.work import work_folder
with work_folder(Path(sys.argv[1]), "verification", 7) as path:
    (path / "deep").mkdir()
    (path / "deep" / "record").write_text("secret")
    os.kill(os.getpid(), 9)
"""


def left_by_a_killed_process(run: Path) -> Path:
    subprocess.run([sys.executable, "-c", KILLED, str(run)], check=False)
    (path,) = work_folders(run)
    assert (path / "deep" / "record").read_text() == "secret"
    return path


def test_a_folder_is_private_and_known_and_gone_at_the_end(tmp_path: Path) -> None:
    with work_folder(tmp_path, "verification", 7) as path:
        assert path.stat().st_mode & 0o777 == 0o700
        assert path.with_name(f"{path.name}.lock").stat().st_mode & 0o777 == 0o600
        assert work_folders(tmp_path) == [path]
        assert about_work(path) == {"purpose": "verification", "position": 7}
        (path / "file").write_text("data")
        with work_folder(tmp_path, "measurement of forgetting", 8) as other:
            assert {*work_folders(tmp_path)} == {path, other}
        sweep_work(tmp_path)
        assert in_use(path)
        assert (path / "file").exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [OSError("full"), KeyboardInterrupt(), SystemExit(143)])
def test_after_an_error_too(tmp_path: Path, error: BaseException) -> None:
    def fail(path: Path) -> None:
        (path / "file").write_text("data")
        raise error

    with pytest.raises(type(error)) as raised, work_folder(tmp_path, "verification", 7) as path:
        fail(path)
    assert raised.value is error
    assert list(tmp_path.iterdir()) == []


def test_a_signal_during_the_removal_does_not_stop_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner, removed = os.rmdir, list[Path]()

    def interrupted(path: Path) -> None:
        removed.append(path)
        if len(removed) == 1:
            raise SystemExit(143)
        inner(path)

    monkeypatch.setattr(os, "rmdir", interrupted)
    with pytest.raises(SystemExit), work_folder(tmp_path, "verification", 7) as path:
        (path / "file").write_text("data")
    assert len(removed) > 1
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_swept(tmp_path: Path) -> None:
    path = left_by_a_killed_process(tmp_path)
    assert not in_use(path)
    with work_folder(tmp_path, "verification", 9) as other:
        sweep_work(tmp_path)
        assert work_folders(tmp_path) == [other]
        assert other.is_dir()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("names", [["0123456789abcdef"], ["0123456789abcdef.lock"], [".0123456789abcdef"]])
def test_every_part_of_it_is_swept(tmp_path: Path, names: list[str]) -> None:
    """A sweep may have been killed itself, or a deletion."""
    (tmp_path / WORK).mkdir()
    for name in names:
        (tmp_path / WORK / name).write_text("secret")
    (tmp_path / WORK / "notes.txt").write_text("not ours")
    sweep_work(tmp_path)
    assert [path.name for path in (tmp_path / WORK).iterdir()] == ["notes.txt"]


def test_another_process_holds_it_too(tmp_path: Path) -> None:
    code = KILLED.replace("os.kill(os.getpid(), 9)", "print(path, flush=True); sys.stdin.read()")
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        path = Path(process.stdout.readline().strip())
        with held_work(path):
            process.kill()
            process.wait()
            sweep_work(tmp_path)
            assert (path / "deep" / "record").exists()
    sweep_work(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_a_lock_is_held_by_nobody(tmp_path: Path) -> None:
    with held_work(tmp_path / "kept"):
        assert list(tmp_path.iterdir()) == []


def test_a_deletion_empties_a_folder_in_use_for_good(tmp_path: Path) -> None:
    with work_folder(tmp_path, "verification", 7) as path:
        (path / "record").write_text("secret")
        destroy_work(path)
        assert path.read_bytes() == b""
        with pytest.raises(OSError, match="Not a directory"):
            (path / "record").write_text("secret")
        sweep_work(tmp_path)
        assert path.is_file(), "the marker stays as long as the process lives"
    assert list(tmp_path.iterdir()) == []
    abandoned = left_by_a_killed_process(tmp_path)
    destroy_work(abandoned)
    assert list(tmp_path.iterdir()) == []


def test_a_deletion_between_the_lock_and_the_folder_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = Path.mkdir

    def late(path: Path, *arguments: Any, **named: Any) -> None:
        if path.parent.name == WORK:
            destroy_work(path)
        inner(path, *arguments, **named)

    monkeypatch.setattr(Path, "mkdir", late)
    with pytest.raises(InputError, match="a deletion came in meanwhile"), work_folder(tmp_path, "x", 1):
        pass
    assert list(tmp_path.iterdir()) == []


def test_many_at_once_sweep_nothing_of_each_other(tmp_path: Path) -> None:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for number in range(40):
                with work_folder(tmp_path, "verification", number) as path:
                    (path / "file").write_text("data")
                    sweep_work(tmp_path)
                    assert (path / "file").read_text() == "data"
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_cannot_be_written_has_it_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, elsewhere = tmp_path / "run", tmp_path / "temporary"
    run.mkdir()
    elsewhere.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    monkeypatch.setattr(os, "access", lambda path, mode: path != run)
    with work_folder(run, "verification", 7) as path:
        assert path.parent == elsewhere
        assert path.stat().st_mode & 0o777 == 0o700
        (path / "file").write_text("data")
    assert [*run.iterdir(), *elsewhere.iterdir()] == []


def test_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    run.mkdir()
    (elsewhere / ("0" * 16)).mkdir(parents=True)
    (run / WORK).symlink_to(elsewhere)
    with pytest.raises(InputError, match="a symbolic link"), work_folder(run, "verification", 7):
        pass
    sweep_work(run)
    assert (elsewhere / ("0" * 16)).is_dir()
