"""A build trains what is wanted and not there, parents first, once; and goes on where it was stopped."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_world import Quiet, World, build, made, started

from fedsgt.build.build import Build
from fedsgt.build.targets import Recipe, Target
from fedsgt.build.train import train
from fedsgt.engine.events import Event, ModuleFinished
from fedsgt.engine.task import Result, StatisticTask, Task
from fedsgt.files.tensors import Tensors
from fedsgt.plans import make
from fedsgt.runs.folder import open_run
from fedsgt.stack.statistics import Statistic
from fedsgt.store import Folder, Manifest, Modules

RECIPE = Recipe({}, "b" * 64, {})


class Stopped(Exception):
    """Ends a build as a kill of the process would."""


@dataclass
class Fake:
    """An engine that adds one in every round, and stops when it is told to."""

    modules: Modules
    capacity: int = 1
    stops_after: int = 10**9
    seen: list[tuple[str, int]] = field(default_factory=list)
    queue: deque[Task] = field(default_factory=deque)
    most: int = 0
    cancelled: list[str] = field(default_factory=list)

    def submit(self, task: Task) -> None:
        for key in task.parents:
            assert self.modules.state(key) == "present", "parents first"
        value = 0.0 if task.state is None else float(task.state["w"][0])
        assert value == task.round - 1, "a round goes on from the one before"
        self.queue.append(task)
        self.most = max(self.most, len(self.queue))

    def wait(self) -> Result:
        if len(self.seen) >= self.stops_after:
            raise Stopped
        task = self.queue.popleft()
        self.seen.append((task.key, task.round))
        state = {"w": np.full(2, task.round, np.float32)}
        return Result(task.key, task.round, state, {"c": task.round}, loss=0.5)

    def statistics(self, tasks: Sequence[StatisticTask]) -> Iterator[tuple[StatisticTask, Statistic]]:
        yield from ()

    def cancel(self, key: str) -> None:
        self.cancelled.append(key)
        self.queue = deque(task for task in self.queue if task.key != key)

    def finish(self, state: Tensors) -> Tensors:
        return {"module": state["w"] * 10}

    def close(self) -> None: ...


def targets_of(sequences: Sequence[Sequence[int]]) -> list[Target]:
    """Return a target for each prefix of each sequence, repeated if several sequences share it."""
    prints = [hashlib.sha256(bytes([group])).hexdigest() for group in range(10)]
    made: list[Target] = []
    for sequence in sequences:
        keys: tuple[str, ...] = ()
        for depth in range(1, len(sequence) + 1):
            groups = tuple(sequence[:depth])
            prefix = tuple(prints[group] for group in groups)
            made.append(Target(RECIPE.key(prefix), groups, prefix, keys, {"c": (0,)}))
            keys = (*keys, made[-1].key)
    return made


@pytest.fixture
def modules(tmp_path: Path) -> Modules:
    return Modules(Folder(tmp_path))


def run(
    modules: Modules,
    targets: Sequence[Target],
    rounds: int = 1,
    priority: Callable[[Target], float] | None = None,
    **engine: Any,
) -> tuple[Fake, Quiet, list[str]]:
    fake, quiet = Fake(modules, **engine), Quiet()
    done = Build(RECIPE, modules, fake, rounds, 0, quiet).run(targets, priority)
    return fake, quiet, done


ROTATIONS = [(0, 1, 2), (2, 0, 1), (1, 2, 0)]


def test_a_second_run_trains_nothing(modules: Modules) -> None:
    targets = targets_of(ROTATIONS)
    _, quiet, done = run(modules, targets)
    assert done == [target.key for target in targets]
    assert quiet.modules == [target.groups for target in targets]
    fake, quiet, done = run(modules, targets)
    assert (fake.seen, quiet.modules, done) == ([], [], [])


@pytest.mark.parametrize("capacity", [1, 2, 7])
def test_equal_prefixes_are_trained_once(modules: Modules, capacity: int) -> None:
    """Two plans over the same groups, and the second again: what they share is there already."""
    first = targets_of([(0, 1, 2), (0, 1, 3), (0, 2, 1)])
    second = targets_of([(0, 1, 2, 3), (4, 0)])
    fake, _, done = run(modules, [*first, *second[:2]], capacity=capacity)
    assert sorted(done) == sorted({target.key for target in first})
    assert len(fake.seen) == len(done) == 6
    _, quiet, _ = run(modules, [*first, *second], capacity=capacity)
    assert sorted(quiet.modules) == [(0, 1, 2, 3), (4,), (4, 0)]


@dataclass
class Deletion:
    """A gate through which one group's deletion is seen after so many looks."""

    group: int
    after: int
    looks: int = 0

    def dead(self) -> frozenset[int]:
        self.looks += 1
        return frozenset({self.group} if self.looks > self.after else ())

    @contextmanager
    def publishing(self) -> Iterator[frozenset[int]]:
        yield self.dead()


@pytest.mark.parametrize("capacity", [1, 3])
@pytest.mark.parametrize("after", range(0, 30, 3))
def test_a_deletion_drops_exactly_what_depends_on_it(modules: Modules, after: int, capacity: int) -> None:
    """Whenever it is seen: all else is trained, and nothing that depends on it is written from then on."""
    targets, fake, quiet = targets_of(ROTATIONS), Fake(modules, capacity=capacity), Quiet()
    gate = Deletion(1, after)
    Build(RECIPE, modules, fake, 2, 0, quiet, gate).run(targets)
    clean = {target.key for target in targets if 1 not in target.groups}
    rest = {target.key for target in targets} - clean
    present = set(modules.keys())
    assert present >= clean
    if gate.looks > after:
        assert present - clean < rest
    assert not fake.queue
    assert {key for key, _ in fake.seen} >= present
    assert clean.isdisjoint(fake.cancelled)
    assert not {Path(name).stem for name in modules.objects.names("rounds/")} & clean


def test_a_tree_costs_its_nodes(modules: Modules) -> None:
    plan = make("tree", 4, budget=None, passes=None, seed=0)
    wanted = targets_of(plan.sequences)
    assert len(wanted) > len(plan.modules), "its sequences share prefixes"
    fake, _, _ = run(modules, wanted, capacity=3)
    assert len(fake.seen) == len(set(fake.seen)) == len(plan.modules)


def test_children_wait_for_their_parents_in_any_order(modules: Modules) -> None:
    """The engine asserts it; here they are asked for the wrong way round."""
    targets = targets_of(ROTATIONS)[::-1]
    _, quiet, _ = run(modules, targets, capacity=4)
    assert sorted(quiet.modules) == sorted(target.groups for target in targets)


def test_a_parent_that_is_there_need_not_be_wanted(modules: Modules) -> None:
    root, middle, leaf = targets_of([(0, 1, 2)])
    with pytest.raises(ValueError, match="wait for parents"):
        run(modules, [middle, leaf])
    run(modules, [root])
    _, quiet, _ = run(modules, [middle, leaf])
    assert quiet.modules == [(0, 1), (0, 1, 2)]


def test_of_what_can_be_trained_the_lowest_priority_comes_first(modules: Modules) -> None:
    targets = targets_of(ROTATIONS)
    wanted = {(1,): 0, (1, 2): 1, (0,): 2, (0, 1): 2, (2,): 3}
    _, quiet, _ = run(modules, targets, priority=lambda target: wanted.get(target.groups, 9))
    assert quiet.modules[:5] == [(1,), (1, 2), (0,), (0, 1), (2,)]
    assert quiet.modules[5:] == [(0, 1, 2), (2, 0), (2, 0, 1), (1, 2, 0)]


def test_no_more_at_once_than_the_engine_takes(modules: Modules) -> None:
    fake, _, _ = run(modules, targets_of([(group,) for group in range(9)]), rounds=2, capacity=3)
    assert fake.most == 3
    assert len(fake.seen) == 18


@pytest.mark.parametrize("after", range(8))
def test_a_stopped_build_goes_on_after_the_last_finished_round(modules: Modules, after: int) -> None:
    targets = targets_of([(0, 1), (1,)])
    with pytest.raises(Stopped):
        run(modules, targets, rounds=3, stops_after=after)
    fake, _, _ = run(modules, targets, rounds=3)
    assert len(fake.seen) == 9 - after, "no finished round is done again"
    for target in targets:
        assert modules.get(target.key)["module"].tolist() == [30, 30]
        manifest = modules.manifest(target.key)
        assert manifest.participants == [{"c": 1}, {"c": 2}, {"c": 3}]
        assert (manifest.rounds, manifest.parent) == (3, target.parent)
        assert (manifest.groups, manifest.prefix) == (list(target.groups), list(target.prefix))
    assert modules.objects.names("rounds/") == []


def test_a_checkpoint_is_there_until_its_module_is(modules: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    (target,) = targets_of([(0,)])

    def stop(*_: Any) -> None:
        raise Stopped

    monkeypatch.setattr(Modules, "put", stop)
    with pytest.raises(Stopped):
        run(modules, [target], rounds=3)
    monkeypatch.undo()
    fake, _, _ = run(modules, [target], rounds=3)
    assert [number for _, number in fake.seen] == [3]


@pytest.mark.parametrize("damage", [b"", b"not a checkpoint"])
def test_a_damaged_checkpoint_is_no_checkpoint(modules: Modules, tmp_path: Path, damage: bytes) -> None:
    (target,) = targets_of([(0,)])
    with pytest.raises(Stopped):
        run(modules, [target], rounds=3, stops_after=2)
    (checkpoint,) = (tmp_path / "rounds").iterdir()
    checkpoint.write_bytes(damage)
    fake, _, _ = run(modules, [target], rounds=3)
    assert [number for _, number in fake.seen] == [1, 2, 3]
    assert modules.objects.names("rounds/") == []


def test_a_checkpoint_of_more_rounds_than_wanted_is_not_used(modules: Modules) -> None:
    (target,) = targets_of([(0,)])
    modules.save_checkpoint(target.key, 3, {"w": np.full(2, 3, np.float32)}, [{"c": 1}] * 3)
    fake, _, _ = run(modules, [target], rounds=3)
    assert [number for _, number in fake.seen] == [1, 2, 3]


# With the real engine, on disk.


@pytest.mark.parametrize("file", ["module.safetensors", "manifest.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_a_damaged_module_is_found_and_trained_to_the_same_bytes(
    pair: tuple[World, Path], file: str, damage: str
) -> None:
    world, path = pair
    folder = train(world.config("grouping.groups=2"), path, Quiet())
    before = made(folder)
    key = before[(1,)][0]
    place = path / "modules" / key / file
    data = place.read_bytes()
    if damage == "remove":
        place.unlink()
    else:
        place.write_bytes(data[:-3] if damage == "cut" else data[:-9] + bytes([data[-9] ^ 4]) + data[-8:])
    assert folder.modules.state(key) == (
        "missing" if (damage, file) == ("remove", "manifest.json") else "corrupt"
    )
    quiet = Quiet()
    assert made(train(world.config("grouping.groups=2"), path, quiet)) == before
    assert quiet.modules == [(1,)]
    assert place.read_bytes() == data


@pytest.fixture(scope="module")
def pair(images: World, tmp_path_factory: pytest.TempPathFactory) -> tuple[World, Path]:
    return images, tmp_path_factory.mktemp("damaged") / "run"


def test_a_checkpoint_left_beside_its_module_is_removed(
    images: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the two, also as the very last thing that was to do."""
    run = images.config("grouping.groups=2", "training.rounds=2")
    with monkeypatch.context() as patch:
        patch.setattr(Modules, "discard_checkpoint", lambda self, key: None)
        folder = train(run, tmp_path / "run", Quiet())
    assert len(folder.modules.objects.names("rounds/")) == 4
    quiet = Quiet()
    assert train(run, tmp_path / "run", quiet).modules.objects.names("rounds/") == []
    assert quiet.modules == []


def test_what_a_killed_writer_left_is_swept(images: World, tmp_path: Path) -> None:
    run = images.config("grouping.groups=2", "peft.layers=1")
    folder = train(run, tmp_path / "run", Quiet())
    key = folder.modules.keys()[0]
    (slice_folder, *_) = folder.cache.iterdir()
    left = [
        folder.path / "modules" / key / ".0123456789abcdef.module.safetensors",
        slice_folder / "abc.17.tmp",
        folder.cache / ("0" * 64) / "of-a-slice-that-is-no-longer.activations",
    ]
    for path in left:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"half")
    before = made(folder)
    assert made(train(run, tmp_path / "run", Quiet())) == before
    assert not any(path.exists() for path in left)


# Phase k changes nothing of what was there before it.


class Witness(Quiet):
    """Sees after each module that no file of an earlier one was touched."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.known: dict[Path, tuple[int, bytes]] = {}

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        if not isinstance(event, ModuleFinished):
            return
        found = {
            path: (path.stat().st_mtime_ns, path.read_bytes())
            for path in sorted(self.root.glob("modules/*/*"))
        }
        assert len(found) == len(self.known) + 2
        for path, before in self.known.items():
            assert found[path] == before, f"{path} was touched by {event.groups}"
        self.known = found


@pytest.mark.parametrize("broken", [False, True])
def test_a_phase_leaves_the_phases_below_it_alone(
    images: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    inner = Modules.put

    def writes_below(self: Modules, manifest: Manifest, tensors: Tensors) -> Manifest:
        """Put the parent again too: the same bytes, but written."""
        if manifest.parent is not None:
            inner(self, self.manifest(manifest.parent), self.get(manifest.parent))
        return inner(self, manifest, tensors)

    if broken:
        monkeypatch.setattr(Modules, "put", writes_below)
    witness = Witness(tmp_path / "run")
    backbone = hash_of(images.folder / "vit")
    if broken:
        with pytest.raises(AssertionError, match="was touched"):
            train(images.config(), tmp_path / "run", witness)
    else:
        train(images.config(), tmp_path / "run", witness)
        assert len(witness.known) == 18
    assert hash_of(images.folder / "vit") == backbone


def hash_of(folder: Path) -> str:
    code = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        code.update(path.name.encode() + path.read_bytes())
    return code.hexdigest()


def fold_in_place(self: object, pairs: Sequence[tuple[object, object]]) -> None:
    """Adds frozen modules to the backbone's own weight."""
    for down, up in pairs:
        self.base.weight.data.add_((self.scale * (up @ down)).float())  # type: ignore[attr-defined, operator]


def test_a_backbone_that_was_written_into_is_found(
    images: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modules folded in place, as they often are elsewhere."""
    from fedsgt.stack.lora import LoraLinear

    monkeypatch.setattr(LoraLinear, "fold", fold_in_place)
    with pytest.raises(RuntimeError, match="the backbone's weights were changed"):
        train(images.config("grouping.groups=2"), tmp_path / "run", Quiet())
    assert open_run(tmp_path / "run").modules.keys() == [], "none of them can be trusted"


def test_a_build_reports_every_round_in_its_order(images: World, tmp_path: Path) -> None:
    prepared, folder = started(tmp_path / "run", images.config("grouping.groups=2", "training.rounds=2"))
    quiet = build(prepared, folder)
    for target in prepared.targets:
        assert [number for groups, number in quiet.rounds if groups == target.groups] == [1, 2]
