"""Files are whole or not there, never replaced by accident, and remains of killed writers can be told."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fedsgt.errors import InputError
from fedsgt.files.durable import (
    finished_path,
    make_folder,
    read_limited,
    remove_abandoned,
    replace_file,
    sync_folder,
    unfinished_file,
    write_once,
)


def steps_of(monkeypatch: pytest.MonkeyPatch, action: Callable[[], None]) -> list[str]:
    """The calls of the operating system that make something last, in order."""
    steps: list[str] = []

    def noted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            folder = name == "fsync" and stat.S_ISDIR(os.fstat(arguments[0]).st_mode)
            steps.append("fsync folder" if folder else name)
            return real(*arguments)

        return call

    with monkeypatch.context() as patch:
        for name in ("fsync", "link", "replace", "unlink", "mkdir"):
            patch.setattr(os, name, noted(name, getattr(os, name)))
        action()
    return steps


def test_a_name_is_given_after_the_bytes_are_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    once = steps_of(monkeypatch, lambda: write_once(tmp_path / "a", b"1", 0o600))
    assert once == ["fsync", "link", "unlink", "fsync folder"]
    assert steps_of(monkeypatch, lambda: replace_file(tmp_path / "a", b"2")) == ["fsync", "replace"]
    assert (tmp_path / "a").read_bytes() == b"2"
    assert os.listdir(tmp_path) == ["a"]


def test_new_folders_are_on_disk_before_what_is_in_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a" / "b" / "c"
    steps = steps_of(monkeypatch, lambda: replace_file(path, b"1"))
    assert steps == ["mkdir", "fsync folder", "mkdir", "fsync folder", "fsync", "replace"]
    assert path.read_bytes() == b"1"


def test_a_file_is_never_made_twice(tmp_path: Path) -> None:
    write_once(tmp_path / "a", b"first", 0o600)
    with pytest.raises(FileExistsError):
        write_once(tmp_path / "a", b"second", 0o600)
    assert (tmp_path / "a").read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["a"]


def test_a_missing_folder_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none/a: cannot write it \(No such file or directory\)$"):
        write_once(tmp_path / "none" / "a", b"1", 0o600)


@pytest.mark.parametrize(
    "write", [partial(write_once, data=b"1", mode=0o600), partial(replace_file, data=b"1")]
)
def test_a_writer_that_is_swept_before_its_lock_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], None]
) -> None:
    real = fcntl.flock

    def swept(file: Any, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", real)
        (unfinished,) = tmp_path.iterdir()
        assert remove_abandoned(unfinished)
        real(file, how)

    monkeypatch.setattr(fcntl, "flock", swept)
    write(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"1"
    assert os.listdir(tmp_path) == ["a"]


def test_a_folder_that_is_removed_meanwhile_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, left = os.mkdir, [3]

    def vanishing(path: Path, mode: int) -> None:
        real(path, mode)
        if left[0]:
            left[0] -= 1
            os.rmdir(path)

    monkeypatch.setattr(os, "mkdir", vanishing)
    replace_file(tmp_path / "a" / "b", b"1")
    assert (tmp_path / "a" / "b").read_bytes() == b"1"
    assert left == [0]


def test_only_the_remains_of_dead_writers_go(tmp_path: Path) -> None:
    path = tmp_path / f".{'0' * 16}.a"
    path.touch()
    with path.open("rb") as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)
        assert not remove_abandoned(path)
        assert path.exists()
    assert remove_abandoned(path)
    assert not remove_abandoned(path)


def test_an_unfinished_file_is_private_and_goes_unless_it_is_renamed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with unfinished_file(path) as (unfinished, file):
        assert stat.S_IMODE(unfinished.stat().st_mode) == 0o600
        assert finished_path(unfinished) == path
        assert not remove_abandoned(unfinished)  # its writer lives
        file.write(b"half")
    assert list(tmp_path.iterdir()) == []
    with unfinished_file(path) as (unfinished, file):
        file.write(b"whole")
        file.seek(0)
        assert file.read() == b"whole"
        unfinished.replace(path)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "finished"),
    [
        (f".{'0' * 16}.a.json", "a.json"),
        (f".{'f' * 16}..x", ".x"),
        ("a.json", None),
        (f".{'0' * 15}.a", None),
        (f".{'g' * 16}.a", None),
        (f"{'0' * 16}.a", None),
    ],
)
def test_an_unfinished_file_says_what_it_was_to_become(name: str, finished: str | None) -> None:
    found = finished_path(Path("run") / name)
    assert found == (None if finished is None else Path("run") / finished)


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_the_mode_is_right_from_the_first_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    seen: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda handle: seen.append(stat.S_IMODE(os.fstat(handle).st_mode)))
    before = os.umask(0)
    try:
        write_once(tmp_path / "a", b"1", mode)
    finally:
        os.umask(before)
    assert seen[0] == mode


def test_a_private_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "my key"
    write_once(path, b"secret", 0o600)
    assert read_limited(path, 6, private=True) == b"secret"
    path.chmod(0o640)
    with pytest.raises(InputError, match=r"mode 640 .* chmod 600 '.*my key'"):
        read_limited(path, 6, private=True)
    assert read_limited(path, 6) == b"secret"


def test_no_more_is_read_than_allowed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1234567")
    with pytest.raises(InputError, match="larger than 6 bytes"):
        read_limited(tmp_path / "a", 6)
    with pytest.raises(InputError, match="larger than 6 bytes"):
        read_limited(Path("/dev/zero"), 6)
    with pytest.raises(InputError, match=r"cannot read it \(Is a directory\)"):
        read_limited(tmp_path, 6)


def test_a_folder_is_made_with_its_mode_and_a_missing_one_is_not_synced(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b", 0o700)
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
    make_folder(tmp_path / "a" / "b")
    sync_folder(tmp_path / "none")
