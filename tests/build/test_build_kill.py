"""Killed with SIGKILL at any point and started again, a training ends with the bytes it would have had."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from collections.abc import Iterator
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import tiny_world
from tiny_child import just_train, train_and_die
from tiny_world import Made, World, made, trained

from fedsgt.config import Config, to_toml
from fedsgt.runs.folder import open_run

LONG = 120  # seconds, after which something hangs


@pytest.fixture(scope="module")
def processes() -> Iterator[ForkServerContext]:
    """Processes that start at once: torch is imported before they are forked, and never used there."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tiny_child"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(tiny_world.__file__).parent), prepend=os.pathsep)
        first = context.Process(target=os.getpid)
        first.start()
        first.join()
        yield context


@pytest.fixture(scope="module")
def run(images: World) -> Config:
    """Two rounds, and a cache, so that there is something to lose everywhere."""
    return images.config("grouping.groups=2", "training.rounds=2", "peft.layers=1")


@pytest.fixture(scope="module")
def expected(run: Config, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return trained(tmp_path_factory.mktemp("whole") / "run", run)


class Place:
    """Folder in which a run is trained and killed."""

    def __init__(self, root: Path, run: Config, processes: ForkServerContext) -> None:
        self.root, self.processes = root, processes
        root.mkdir(parents=True, exist_ok=True)
        self.path, self.config, self.count = root / "runs" / "run", root / "given.toml", root / "count"
        self.config.write_text(to_toml(run))

    def train(self, step: int | None) -> bool:
        """Train until the given step, and return whether the training came to its end."""
        arguments = (self.path, self.config, step, self.count)
        process = self.processes.Process(target=train_and_die, args=arguments)
        process.start()
        process.join(LONG)
        assert process.exitcode in (0, -9)
        return process.exitcode == 0

    def check_between(self, expected: Made) -> None:
        """Check that every module that can be seen after a kill is whole and right."""
        if self.path.exists():
            folder = open_run(self.path)
            for groups, (key, sha) in expected.items():
                assert folder.modules.state(key) in ("present", "missing"), groups
                if folder.modules.state(key) == "present":
                    assert folder.modules.manifest(key).sha256 == sha

    def check_end(self, expected: Made) -> None:
        folder = open_run(self.path)
        assert made(folder) == expected
        assert folder.modules.objects.names("rounds/") == []
        assert not [path for path in self.root.rglob("*") if path.name.startswith(".")]
        assert not list(self.root.rglob("*.tmp"))
        assert {path.name for path in self.path.parent.iterdir()} == {"run"}


def until_done(place: Place, expected: Made, seed: int, most: int) -> int:
    """Kills and starts again until it is done; how often it was killed."""
    chosen = random.Random(seed)
    for kills in range(200):
        if place.train(chosen.randrange(1, most)):
            return kills
        place.check_between(expected)
    raise AssertionError("it never came to an end")


# A new run's folder appears whole or not at all: an attempt that is always killed within the steps that this
# takes, with what the one before left to be removed, would never come to an end.
@pytest.mark.parametrize(
    ("seed", "most"), [(1, 60), *(pytest.param(seed, 45, marks=pytest.mark.slow) for seed in range(2, 6))]
)
def test_killed_again_and_again(
    run: Config, expected: Made, processes: ForkServerContext, tmp_path: Path, seed: int, most: int
) -> None:
    place = Place(tmp_path, run, processes)
    kills = until_done(place, expected, seed, most)
    assert kills >= 8
    place.check_end(expected)


def steps_of_a_training(place: Place) -> int:
    assert place.train(None)
    return int(place.count.read_text())


@pytest.mark.slow
def test_killed_once_at_every_step(images: World, processes: ForkServerContext, tmp_path: Path) -> None:
    """Also at the last step of a module, when all is trained and only clearing up is left."""
    run = images.config("grouping.groups=1", "training.rounds=2", "peft.layers=1")
    expected = trained(tmp_path / "whole", run)
    total = steps_of_a_training(Place(tmp_path / "count", run, processes))
    for step in range(1, total + 1):
        place = Place(tmp_path / str(step), run, processes)
        assert not place.train(step)
        place.check_between(expected)
        assert place.train(None)
        place.check_end(expected)


def test_killed_at_some_steps_near_the_end(
    run: Config, expected: Made, processes: ForkServerContext, tmp_path: Path
) -> None:
    """Between a module, its manifest and its checkpoint's removal, with nothing else left to do."""
    total = steps_of_a_training(Place(tmp_path / "count", run, processes))
    for step in range(total - 18, total + 1, 4):
        place = Place(tmp_path / str(step), run, processes)
        assert not place.train(step)
        place.check_between(expected)
        assert place.train(None)
        place.check_end(expected)


def children(pid: int) -> set[int]:
    found = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        found |= set(map(int, (task / "children").read_text().split()))
    return found


def gone(pid: int) -> bool:
    """Ended, whether or not somebody has taken note of it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_for(process: BaseProcess, path: Path, pattern: str) -> None:
    """Wait until it has written such a file."""
    for _ in range(LONG * 100):
        if list(path.glob(pattern)):
            return
        assert process.is_alive()
        time.sleep(0.01)
    raise AssertionError(f"no {pattern}")


STAGES = {"at work": "modules/*/manifest.json", "starting": "run.json"}


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
@pytest.mark.parametrize("stage", ["at work", pytest.param("starting", marks=pytest.mark.slow)])
def test_worker_processes_die_with_their_parent(
    images: World, run: Config, expected: Made, processes: ForkServerContext, tmp_path: Path, stage: str
) -> None:
    config = images.config("grouping.groups=2", "training.rounds=2", "peft.layers=1", "engine.workers=1")
    place = Place(tmp_path, config, processes)
    process = processes.Process(target=just_train, args=(place.path, place.config))
    process.start()
    assert process.pid is not None
    wait_for(process, place.path, STAGES[stage])
    while not (workers := children(process.pid)):
        assert process.is_alive()
        time.sleep(0.01)
    process.kill()
    process.join()
    for _ in range(LONG * 100):
        if all(map(gone, workers)):
            break
        time.sleep(0.01)
    assert all(map(gone, workers))
    place.check_between(expected)
    Place(tmp_path, run, processes).train(None)
    place.check_end(expected)
