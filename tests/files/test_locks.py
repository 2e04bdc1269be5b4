"""A lock is held by one thread of one process, again by the same thread, and ends with its process."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from read_only import start

from fedsgt.files.locks import Busy, FileLock, held_in_place, leads_to, only_holder

HOLD = """
import sys
from pathlib import Path
from fedsgt.files.locks import FileLock, only_holder
path = Path(sys.argv[2])
lock = FileLock(path).held() if sys.argv[1] == "waiting" else only_holder(path, path.parent)
with lock:
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(kind: str, path: Path) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, kind, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    return child


def test_the_same_thread_takes_it_again(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock")
    with lock.held(), lock.held():
        assert lock.depth == 2
    assert lock.depth == 0


def test_another_thread_waits(tmp_path: Path) -> None:
    lock, seen = FileLock(tmp_path / "lock"), []

    def take() -> None:
        with lock.held():
            seen.append("other")

    with lock.held():
        thread = threading.Thread(target=take)
        thread.start()
        thread.join(0.2)
        seen.append("first")
    thread.join()
    assert seen == ["first", "other"]


def test_the_lock_is_free_after_an_error(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock")
    with pytest.raises(ZeroDivisionError), lock.held():
        _ = 1 / 0
    with lock.held():
        assert lock.depth == 1


def test_another_process_waits_until_the_holder_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with holder("waiting", path) as child:
        taken = threading.Event()

        def take() -> None:
            with FileLock(path).held():
                taken.set()

        thread = threading.Thread(target=take)
        thread.start()
        assert not taken.wait(0.2)
        child.kill()
        thread.join()
        assert taken.is_set()


def test_a_busy_run_is_named_and_free_again_once_the_holder_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with holder("refusing", path) as child:
        with pytest.raises(Busy, match=f"^{tmp_path}: another process is working on this run"):
            only_holder(path, tmp_path).__enter__()
        child.kill()
        child.wait()
        with only_holder(path, tmp_path):
            pass


def test_who_waited_for_a_replaced_file_gets_the_new_one(tmp_path: Path) -> None:
    path, new, seen = tmp_path / "file", tmp_path / "new", []
    path.write_text("old")
    new.write_text("new")

    def take() -> None:
        with held_in_place(path) as file:
            seen.append(file.read())

    with held_in_place(path) as file:
        assert leads_to(path, file)
        thread = threading.Thread(target=take)
        thread.start()
        thread.join(0.2)
        assert not seen
        new.replace(path)
        assert not leads_to(path, file)
    thread.join()
    assert seen == [b"new"]
    assert list(tmp_path.iterdir()) == [path]


def test_a_lock_that_can_only_be_read_is_shared_by_its_readers(tmp_path: Path) -> None:
    """Readers wait for a writer, and a writer for them; a lock that was never made holds off nobody."""
    path = tmp_path / "lock"
    path.touch()
    with read_only_holder(path) as one, read_only_holder(path) as two:
        assert (one, two) == ("held", "held")
        with pytest.raises(Busy), only_holder(path, tmp_path):
            pass
    with only_holder(path, tmp_path):
        pass
    path.unlink()
    with read_only_holder(path) as found:
        assert found == "held"
    assert not path.exists()


@contextmanager
def read_only_holder(path: Path) -> Iterator[str]:
    """Hold the lock in a process that can only read its folder."""
    child = start(path.parent, "-c", HOLD, "waiting", str(path))
    assert child.stdout is not None
    try:
        yield child.stdout.readline().strip()
    finally:
        child.communicate()
