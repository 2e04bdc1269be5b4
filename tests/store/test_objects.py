"""Folder and remote store behave alike: whole objects under safe names, and one line when they cannot."""

from __future__ import annotations

import errno
import fcntl
import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsgt.errors import InputError
from fedsgt.files import durable
from fedsgt.store import Folder, Objects, StoreError, open_objects

PART = st.text("aZ0_-.", min_size=1, max_size=4)
BAD_NAMES = [
    *("", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/..", "./a", ".hidden", "a/.b"),
    *("a\\b", "C:a", "a\nb", "a\0b", "a b", "é", "~", "a\n"),
]


@pytest.fixture(params=["folder", "remote"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    return open_objects(tmp_path / "store" if request.param == "folder" else f"memory://{uuid4().hex}")


def everything_under(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*"))


def test_what_is_written_is_read(objects: Objects) -> None:
    for data in (b"", b"old", b"new" * 100_000):
        objects.write("a/b/c", data)
        assert objects.read("a/b/c") == data


def test_an_absent_object_is_a_key_error(objects: Objects) -> None:
    objects.write("a/b", b"1")
    for name in ("b", "a/c", "a/b/c", "a"):
        with pytest.raises(KeyError, match=name):
            objects.read(name)


def test_names_start_with_the_prefix_and_are_sorted(objects: Objects) -> None:
    assert objects.names() == objects.names("a/b/") == []
    for name in ("b", "a/c", "a/b/2", "ab/1", "a/b/1"):
        objects.write(name, b"")
    assert objects.names() == ["a/b/1", "a/b/2", "a/c", "ab/1", "b"]
    assert objects.names("a") == ["a/b/1", "a/b/2", "a/c", "ab/1"]
    assert objects.names("a/") == ["a/b/1", "a/b/2", "a/c"]
    assert objects.names("a/b/1") == ["a/b/1"]
    assert objects.names("a/b/1/") == objects.names("c") == []


def test_a_deleted_object_is_gone_and_may_be_deleted_again(objects: Objects) -> None:
    objects.write("a/b/c", b"1")
    objects.write("a/d", b"2")
    for _ in range(2):
        objects.delete("a/b/c")
        assert objects.names() == ["a/d"]
    for absent in ("a", "a/d/e", "x/y"):
        objects.delete(absent)
    assert objects.read("a/d") == b"2"


def test_objects_go_to_other_processes(objects: Objects) -> None:
    objects.write("a", b"1")
    assert pickle.loads(pickle.dumps(objects)).read("a") == b"1"


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_that_might_lead_elsewhere_are_refused(objects: Objects, name: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: objects.read(name),
        lambda: objects.write(name, b""),
        lambda: objects.delete(name),
    ]
    for call in calls:
        with pytest.raises(InputError, match="is not allowed"):
            call()


@pytest.mark.parametrize("prefix", ["/", "../", "a//", ".", "a/../b", "a/."])
def test_prefixes_that_might_lead_elsewhere_are_refused(objects: Objects, prefix: str) -> None:
    for call in (objects.names, objects.sweep):
        with pytest.raises(InputError, match="is not allowed"):
            call(prefix)


@given(st.lists(PART, min_size=1, max_size=4).map("/".join))
def test_no_allowed_name_leaves_the_folder(name: str) -> None:
    root = Path("/root/of/store")
    try:
        path = Folder(root).path(name)
    except InputError:
        assert any(part.startswith((".", "-")) for part in name.split("/"))
    else:
        assert Path(os.path.normpath(path)) == path
        assert root in path.parents


def test_empty_folders_are_removed_but_not_the_root(tmp_path: Path) -> None:
    objects = Folder(tmp_path)
    objects.write("a/b/c/d", b"1")
    objects.write("a/e", b"2")
    objects.delete("a/b/c/d")
    assert everything_under(tmp_path) == ["a", "a/e"]
    objects.delete("a/e")
    assert everything_under(tmp_path) == []
    (tmp_path / "x/y").mkdir(parents=True)
    objects.delete("x/y/z")
    assert everything_under(tmp_path) == []


def test_reading_makes_no_folder(tmp_path: Path) -> None:
    objects = Folder(tmp_path / "none")
    assert objects.names() == []
    objects.delete("a")
    objects.sweep()
    assert everything_under(tmp_path) == []


def leave_unfinished(root: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave a file as a writer does that is killed between writing and renaming."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "killed")))
        patch.setattr(os, "unlink", lambda *_: None)
        with pytest.raises(StoreError, match="killed"):
            Folder(root).write(name, b"unfinished")


def test_leftovers_are_never_listed_and_are_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = Folder(tmp_path)
    objects.write("a/whole", b"1")
    for name in ("a/part", "b/part", "b/part2"):
        leave_unfinished(tmp_path, name, monkeypatch)
    assert objects.names() == ["a/whole"]
    assert len(everything_under(tmp_path)) == 6
    objects.sweep("b/part2")
    assert len(everything_under(tmp_path)) == 5
    objects.sweep("b/")
    assert len(everything_under(tmp_path)) == 3
    objects.sweep()
    assert everything_under(tmp_path) == ["a", "a/whole"]


def test_files_of_others_are_neither_listed_nor_swept(tmp_path: Path) -> None:
    for name in (".DS_Store", "with space", ".0123.x"):
        (tmp_path / name).touch()
    objects = Folder(tmp_path)
    objects.sweep()
    assert objects.names() == []
    assert len(everything_under(tmp_path)) == 3


def test_a_sweep_leaves_a_writer_at_work_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace, objects = os.replace, Folder(tmp_path)

    def sweep_then_replace(source: Path, target: Path) -> None:
        objects.sweep()
        assert objects.names() == []
        replace(source, target)

    monkeypatch.setattr(os, "replace", sweep_then_replace)
    objects.write("a/b", b"1")
    assert objects.read("a/b") == b"1"


def test_a_sweep_between_opening_and_locking_makes_the_writer_begin_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects, flock, sweeps = Folder(tmp_path), fcntl.flock, iter([True])

    def sweep_then_lock(file: Any, how: int) -> None:
        if next(sweeps, False):
            objects.sweep()
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", sweep_then_lock)
    objects.write("a/b", b"1")
    assert everything_under(tmp_path) == ["a", "a/b"]


def test_writers_deleters_and_sweepers_do_not_disturb_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    objects, failures = Folder(tmp_path), list[BaseException]()

    def repeatedly(action: Callable[[], object]) -> None:
        try:
            for _ in range(300):
                action()
        except BaseException as error:
            failures.append(error)

    actions: list[Callable[[], object]] = [
        lambda: objects.write("a/b/c", b"1"),
        lambda: objects.write("a/b/d", b"2"),
        lambda: objects.delete("a/b/c"),
        lambda: objects.delete("a/b/d"),
        objects.sweep,
        objects.names,
    ]
    threads = [threading.Thread(target=repeatedly, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert not [name for name in everything_under(tmp_path) if "/." in name]


@pytest.mark.parametrize("failing", ["fsync", "replace", "mkdir", "open"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT])
def test_a_failed_write_names_the_file_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str, code: int
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(durable if failing == "open" else os, failing, fail, raising=False)
        with pytest.raises(StoreError) as caught:
            Folder(tmp_path).write("a/b", b"1" * 1000)
    assert str(caught.value).startswith(f"cannot write {tmp_path}/a/b: {os.strerror(code)}; ")
    assert "\n" not in str(caught.value)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_file_in_the_way_is_said(tmp_path: Path) -> None:
    (tmp_path / "store").touch()
    with pytest.raises(StoreError, match=r"cannot write .*/store/a/b: Not a directory"):
        Folder(tmp_path / "store").write("a/b", b"")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StoreError, match=r"cannot write .*/link/a: No such file"):
        Folder(tmp_path / "link").write("a", b"")


def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(StoreError, match=f"cannot list {tmp_path}: Permission denied"):
        Folder(tmp_path).names()
