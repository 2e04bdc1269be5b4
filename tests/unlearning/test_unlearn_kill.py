"""Killed with SIGKILL at any step, a deletion is afterwards unknown or complete, never half done."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
from collections.abc import Iterator
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest
import tiny_world
from deletion_child import delete_and_die
from given_world import trained_in_memory
from tiny_deletions import copied, prefixes, problems
from tiny_world import World

from fedsgt.build.prepare import prepare
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.serving.export import export_sequence
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import recover, unfinished, unlearn

GROUP = 1


@pytest.fixture(scope="module")
def processes() -> Iterator[ForkServerContext]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["deletion_child"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(tiny_world.__file__).parent), prepend=os.pathsep)
        yield context


class Scene:
    """A run with everything that a deletion has to destroy, and a record to delete."""

    def __init__(self, images: World, root: Path, processes: ForkServerContext) -> None:
        self.root, self.processes = root, processes
        # Its records are kept in its folder, so that these have to go too.
        self.source = trained_in_memory(images, root / "source", "peft.layers=1").path
        folder = open_run(self.source)
        row = images.inside(prepare(folder.config, folder.description), GROUP)[0]
        self.client, self.record, self.content = row.client, row.id, row.content
        export_sequence(folder, 0, None, None)
        dead = next(entry for entry in folder.description.modules if GROUP in entry.groups)
        folder.modules.save_checkpoint(dead.key, 1, folder.modules.get(dead.key), [{"c0": 1}])
        folder.ledger.close()

    def delete(self, folder: Path, step: int | None) -> bool:
        """Delete in another process; return whether it came to its end."""
        arguments = (folder, self.client, (self.record,), step, self.root / "count")
        child = self.processes.Process(target=delete_and_die, args=arguments)
        child.start()
        child.join(120)
        assert child.exitcode is not None, "it hangs"
        return child.exitcode == 0


@pytest.fixture(scope="module")
def scene(images: World, processes: ForkServerContext, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return Scene(images, tmp_path_factory.mktemp("scene"), processes)


@pytest.fixture(scope="module")
def steps(scene: Scene) -> int:
    """Return the number of steps in a deletion that nobody kills."""
    folder = scene.root / "whole"
    copied(scene.source, folder).ledger.close()
    assert scene.delete(folder, None)
    check_complete(open_run(folder), scene)
    return int((scene.root / "count").read_text())


def check_complete(folder: RunFolder, scene: Scene) -> None:
    assert unfinished(folder) == []
    assert [entry.body["groups"] for entry in folder.live().requests] == [[GROUP]]
    assert prefixes(folder) == [(0,), (2, 0), ()]
    assert problems(folder) == []
    assert isinstance(scene.content, bytes)
    kept = folder.path / "records"
    # The test records are nobody's, and this one may be among them.
    held = [file.name for file in kept.glob("[0-9]*") if scene.content in file.read_bytes()]
    assert held == [], "the record itself is still there"
    assert len(list((folder.path / "certificates").iterdir())) == 1
    again = unlearn(folder, [Deletion(scene.client, records=(scene.record,))], key="the request")
    assert again.repeated


def check_killed_at(step: int, scene: Scene, tmp_path: Path) -> bool:
    """Whether the request was in the ledger by then."""
    folder = copied(scene.source, tmp_path / f"run-{step}")
    folder.ledger.close()
    assert not scene.delete(folder.path, step)
    after = open_run(folder.path)
    if not after.live().requests:
        assert all(prefixes(after)), "unknown: everything serves"
        assert problems(after) == []
        assert len(after.present()) == len(after.description.modules)
        return False
    assert prefixes(after) == [(0,), (2, 0), ()], "in force, whatever is destroyed yet"
    recover(after)
    check_complete(after, scene)
    shutil.rmtree(folder.path)
    return True


def test_killed_at_some_steps(scene: Scene, steps: int, tmp_path: Path) -> None:
    chosen = random.Random(0).sample(range(1, steps + 1), 12)
    known = [check_killed_at(step, scene, tmp_path) for step in sorted(chosen)]
    assert known == sorted(known), "once it is known it stays so"


@pytest.mark.slow
def test_killed_at_every_step(scene: Scene, steps: int, tmp_path: Path) -> None:
    known = [check_killed_at(step, scene, tmp_path) for step in range(1, steps + 1)]
    assert known == sorted(known)
    assert {False, True} == set(known)


def test_killed_twice(scene: Scene, steps: int, tmp_path: Path) -> None:
    """The second process is killed too, while it finishes what the first left."""
    for first, second in ((steps // 2, steps // 3), (2 * steps // 3, 5), (steps - 3, 2)):
        folder = copied(scene.source, tmp_path / f"run-{first}-{second}")
        folder.ledger.close()
        assert not scene.delete(folder.path, first)
        scene.delete(folder.path, second)
        after = open_run(folder.path)
        recover(after)
        check_complete(after, scene)
