"""Killed or without power at any step, a store is as before or as after, and what was acknowledged stays."""

from __future__ import annotations

import os
import random
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsgt.files import durable
from fedsgt.files.tensors import Tensors
from fedsgt.store import Folder, Modules, Origin

KEY, OTHER = "a" * 64, "b" * 64
CHOICES = ["synced", "live", "half"]
STEPS = ["mkdir", "fsync", "replace", "unlink", "rmdir"]


def origin(key: str) -> Origin:
    return Origin(
        key=key,
        parent=None,
        groups=[],
        prefix=[],
        config_hash="0" * 64,
        config={},
        backbone="0" * 64,
        rounds=0,
        participants=[],
        seed=0,
        versions={},
        profile={},
        machine={},
        metrics={},
    )


def tensors(value: float) -> Tensors:
    return {"w": np.full(50, value, np.float32)}


class PowerCutError(BaseException):
    """No handler for ordinary errors runs when the power is cut."""


@dataclass
class Disk:
    """Follows what is synced, by file number, so that it can say what a power cut may leave."""

    root: Path
    fails_at: int
    folders: dict[int, dict[str, int]] = field(default_factory=dict)
    files: dict[int, bytes] = field(default_factory=dict)
    kept: dict[int, int] = field(default_factory=dict)
    steps: int = 0

    def __post_init__(self) -> None:
        for path in (self.root, *self.root.rglob("*")):
            self.synced(path)

    def synced(self, path: Path) -> None:
        number = self.keep(path)
        if path.is_dir():
            self.folders[number] = {entry.name: self.keep(entry) for entry in path.iterdir()}
        else:
            self.files[number] = path.read_bytes()

    def keep(self, path: Path) -> int:
        """The file's number, which is not given to another file while this one is open."""
        number = path.stat().st_ino
        if number not in self.kept:
            self.kept[number] = os.open(path, os.O_RDONLY)
        return number

    def close(self) -> None:
        for handle in self.kept.values():
            os.close(handle)

    def step(self) -> None:
        self.steps += 1
        if self.steps > self.fails_at:
            raise PowerCutError

    def counted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self.step()
            result = real(*arguments, **options)
            if name == "fsync":
                self.synced(Path(os.readlink(f"/proc/self/fd/{arguments[0]}")))
            return result

        return call

    def image(self, target: Path, choose: Callable[[], str]) -> Path:
        """A disk after the cut, on which each file and folder is as synced, as it was, or (a file) half."""
        live = {path.stat().st_ino: path for path in (self.root, *self.root.rglob("*"))}
        self._restore(self.root.stat().st_ino, target, live, choose)
        return target

    def _restore(self, number: int, target: Path, live: dict[int, Path], choose: Callable[[], str]) -> None:
        chosen = choose() if number in live else "synced"
        if self._is_folder(number, live):
            target.mkdir()
            entries = self.folders.get(number, {})
            if chosen != "synced":
                entries = {entry.name: entry.stat().st_ino for entry in live[number].iterdir()}
            for name, inner in entries.items():
                self._restore(inner, target / name, live, choose)
        else:
            data = self.files.get(number, b"") if chosen != "live" else live[number].read_bytes()
            if chosen == "half" and number not in self.files:
                data = live[number].read_bytes()[: live[number].stat().st_size // 2]
            target.write_bytes(data)

    def _is_folder(self, number: int, live: dict[int, Path]) -> bool:
        return (
            stat.S_ISDIR(os.fstat(self.kept[number]).st_mode)
            if number in self.kept
            else live[number].is_dir()
        )


def finishes(disk: Disk, action: Callable[[Modules], object]) -> bool:
    """Does it on this disk, whose power may be cut before it is done."""
    with pytest.MonkeyPatch.context() as patch:
        for name in STEPS:
            patch.setattr(os, name, disk.counted(name, getattr(os, name)))
        patch.setattr(durable, "open", disk.counted("open", open), raising=False)
        try:
            action(Modules(Folder(disk.root / "run" / "store")))
        except PowerCutError:
            return False
    return True


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real disk need not be waited for."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def summary(root: Path) -> tuple[object, object, object]:
    """Return the state that a user sees: the module, its neighbour, the checkpoint."""
    modules = Modules(Folder(root))
    seen = modules.state(KEY)
    value = modules.get(KEY)["w"][0] if seen == "present" else seen
    checkpoint = modules.load_checkpoint(KEY)
    return (
        value,
        modules.state(OTHER),
        None if checkpoint is None else (checkpoint.number, checkpoint.tensors["w"][0]),
    )


def fill(modules: Modules) -> None:
    modules.put(origin(KEY), tensors(1))
    modules.put(origin(OTHER), tensors(1))
    modules.save_checkpoint(KEY, 1, tensors(1), [{}])


BEFORE: dict[str, Callable[[Modules], object]] = {
    "nothing": lambda modules: None,
    "old": fill,
}
ACTIONS: dict[str, Callable[[Modules], object]] = {
    "put": lambda modules: modules.put(origin(KEY), tensors(2)),
    "discard": lambda modules: modules.discard(KEY),
    "save_checkpoint": lambda modules: modules.save_checkpoint(KEY, 2, tensors(2), [{}, {}]),
    "discard_checkpoint": lambda modules: modules.discard_checkpoint(KEY),
}


def images(disk: Disk, place: Path) -> Iterator[Path]:
    """Return the states that a kill leaves, and those that power cuts may leave."""
    yield Path(shutil.copytree(disk.root, place / "killed"))
    for always in CHOICES:
        yield disk.image(place / always, partial(str, always))
    for seed in range(6):
        yield disk.image(place / str(seed), partial(random.Random(seed).choice, CHOICES))


def prepared(root: Path, before: str) -> Path:
    root.mkdir(parents=True)
    BEFORE[before](Modules(Folder(root / "run" / "store")))
    return root


@pytest.mark.usefixtures("quick")
@pytest.mark.skipif(sys.platform != "linux", reason="finds the synced file through /proc")
@pytest.mark.parametrize("before", sorted(BEFORE))
@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_every_step_may_be_the_last(tmp_path: Path, before: str, action: str) -> None:
    done = prepared(tmp_path / "done", before) / "run" / "store"
    old = summary(done)
    ACTIONS[action](Modules(Folder(done)))
    new = summary(done)
    # A module that is replaced is withdrawn in between.
    allowed = {old, new, ("missing", *old[1:])} if action == "put" else {old, new}
    finished = False
    for fails_at in count():
        place = tmp_path / str(fails_at)
        with closing(Disk(prepared(place / "work", before), fails_at)) as disk:
            finished = finishes(disk, ACTIONS[action])
            for image in images(disk, place):
                assert summary(image / "run" / "store") in ({new} if finished else allowed), image
                check_recovery(image / "run" / "store", ACTIONS[action], new)
        if finished:
            break
    assert fails_at > 1


def check_recovery(store: Path, action: Callable[[Modules], object], new: object) -> None:
    """Doing it again gives what it should, and a sweep leaves none of the remains."""
    action(Modules(Folder(store)))
    assert summary(store) == new
    Folder(store).sweep()
    assert not list(store.rglob(".*"))


@pytest.mark.usefixtures("quick")
@pytest.mark.skipif(sys.platform != "linux", reason="finds the synced file through /proc")
@pytest.mark.parametrize("action", ["discard", "discard_checkpoint"])
def test_what_is_discarded_is_off_the_disk(tmp_path: Path, action: str) -> None:
    with closing(Disk(prepared(tmp_path / "live", "old"), sys.maxsize)) as disk:
        assert finishes(disk, ACTIONS[action])
        image = disk.image(tmp_path / "cut", lambda: "synced") / "run" / "store"
    gone = "modules" if action == "discard" else "rounds"
    assert not list(image.glob(f"{gone}/{KEY}*"))


@pytest.mark.usefixtures("quick")
@pytest.mark.skipif(sys.platform != "linux", reason="finds the synced file through /proc")
def test_folders_that_another_writer_made_but_did_not_sync_are_synced(tmp_path: Path) -> None:
    root = prepared(tmp_path / "work", "old")
    with closing(Disk(root, sys.maxsize)) as disk:
        (root / "run" / "store" / "new" / "inner").mkdir(parents=True)
        assert finishes(disk, lambda modules: modules.objects.write("new/inner/object", b"1"))
        image = disk.image(tmp_path / "cut", lambda: "synced") / "run" / "store"
    assert Folder(image).names("new/") == ["new/inner/object"]


WRITER = """
import sys
from functools import partial
from itertools import count
from pathlib import Path
import numpy as np
from fedsgt.store import Folder, Modules, Origin

modules = Modules(Folder(Path(sys.argv[1])))
template = Origin.model_validate_json(sys.argv[2])
for number in count(int(sys.argv[3])):
    key = "abc"[number % 3] * 64
    tensors = {"w": np.full(20000, number, np.float32)}
    print("begin", key, number, flush=True)
    modules.save_checkpoint(key, 1, tensors, [{"n": number}])
    if number % 4 == 3:
        modules.discard(key)
    else:
        modules.put(template.model_copy(update={"key": key}), tensors)
    print("end", key, number if number % 4 != 3 else "missing", flush=True)
"""


def read_until_killed(child: subprocess.Popen[str], lines: int, delay: float) -> list[list[str]]:
    assert child.stdout is not None
    first = [child.stdout.readline() for _ in range(lines)]
    try:
        child.wait(delay)
    except subprocess.TimeoutExpired:
        os.kill(child.pid, signal.SIGKILL)
    rest = child.stdout.readlines()
    child.stdout.close()
    assert child.wait() == -signal.SIGKILL
    return [line.split() for line in (*first, *rest) if line.endswith("\n")]


def value_of(modules: Modules, key: str) -> str:
    state = modules.state(key)
    return str(int(modules.get(key)["w"][0])) if state == "present" else state


def check_after_kill(modules: Modules, lines: list[list[str]], expected: dict[str, str]) -> None:
    expected.update({key: value for word, key, value in lines if word == "end"})
    word, key, value = lines[-1]
    assert set(modules.keys()) <= {letter * 64 for letter in "abc"}
    for other, known in expected.items():
        found = value_of(modules, other)
        in_flight = word == "begin" and other == key
        assert found in ({known, value, "missing"} if in_flight else {known})
        expected[other] = found
        checkpoint = modules.load_checkpoint(other)
        assert checkpoint is None or checkpoint.participants == [{"n": int(checkpoint.tensors["w"][0])}]


def test_a_writer_killed_again_and_again_leaves_whole_modules(tmp_path: Path) -> None:
    modules, source, number = Modules(Folder(tmp_path)), random.Random(0), 0
    expected = {letter * 64: "missing" for letter in "abc"}
    template = origin(KEY).model_dump_json()
    for _ in range(6):
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, tmp_path, template, str(number)], stdout=subprocess.PIPE, text=True
        )
        lines = read_until_killed(child, source.randrange(1, 12), source.random() / 50)
        check_after_kill(modules, lines, expected)
        number = max(int(line[2]) for line in lines if line[0] == "begin") + 1
    modules.objects.sweep()
    assert not list(tmp_path.rglob(".*"))
