"""`fedsgt verify`, ended, killed or overtaken by a deletion: no record is left behind."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from command import fedsgt
from started_command import StartedCommand, files_with, is_gone, wait_until
from tiny_deletions import problems
from tiny_world import Quiet, World

from fedsgt.build.train import train
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]
LEFT = "left by a killed process; the next command that may write to the run removes it"


@pytest.fixture(scope="module")
def long_trained(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that takes a while to verify, in workers."""
    path = tmp_path_factory.mktemp("killed") / "run"
    train(images.config("peft.layers=1", "training.rounds=8"), path, Quiet()).ledger.close()
    settings = (path / "run.toml").read_text()
    assert "workers = 0" in settings
    (path / "run.toml").write_text(settings.replace("workers = 0", "workers = 1"))
    return path


@pytest.fixture
def folder(long_trained: Path, tmp_path: Path) -> RunFolder:
    return open_run(shutil.copytree(long_trained, tmp_path / "run"))


class Verifying(StartedCommand):
    """A verification, and the files with bytes of records in the run's folder and among temporary files."""

    def __init__(self, folder: RunFolder, images: World) -> None:
        super().__init__(folder.path.parent / "temporary", "verify", folder.path)
        self.run, self.records = folder.path, [row.content for row in images.rows]

    def files_with_records(self) -> list[Path]:
        return files_with([self.run, self.temporary], self.records)

    def wait_for_records(self) -> None:
        wait_until(lambda: len(self.files_with_records()) == 4)

    def wait_for_training(self) -> int:
        """Wait until the other process trains, then stop it; return its id."""
        child = self.child()
        places = (self.run / "work", self.temporary)
        wait_until(lambda: any(path for place in places for path in place.glob("*/cache/*/*.activations")))
        os.kill(child, signal.SIGSTOP)
        assert len(self.files_with_records()) == 4
        return child

    def left(self) -> list[Path]:
        return [*self.files_with_records(), *self.temporary.iterdir(), *self.run.glob("work")]


@pytest.mark.parametrize(
    ("number", "training"),
    [
        (signal.SIGTERM, True),
        (signal.SIGHUP, False),
        pytest.param(signal.SIGTERM, False, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, True, marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, True, marks=pytest.mark.slow),
    ],
)
def test_ended_by_a_signal(folder: RunFolder, images: World, number: signal.Signals, training: bool) -> None:
    """It ends while the other process starts, or trains."""
    with Verifying(folder, images) as verifying:
        verifying.wait_for_records()
        if training:
            verifying.wait_for_training()
        os.kill(verifying.process.pid, number)
        code, errors = verifying.end()
        assert (code, verifying.left()) == (128 + number, [])
        assert "Traceback" not in errors


def test_a_signal_and_another_one(folder: RunFolder, images: World) -> None:
    with Verifying(folder, images) as verifying:
        verifying.wait_for_training()
        for _ in range(20):
            os.kill(verifying.process.pid, signal.SIGTERM)
            os.kill(verifying.process.pid, signal.SIGHUP)
        verifying.end()
        assert verifying.left() == []


def test_the_command_alone_is_killed(folder: RunFolder, images: World) -> None:
    """The other process holds the folder, so nobody else removes it; it does so itself."""
    with Verifying(folder, images) as verifying:
        child = verifying.wait_for_training()
        verifying.process.kill()
        verifying.process.wait()
        open_run(folder.path)
        assert len(verifying.files_with_records()) == 4, "swept although a process works with it"
        assert problems(folder) == []
        os.kill(child, signal.SIGCONT)
        wait_until(lambda: is_gone(child))
        assert verifying.files_with_records() == []
        assert fedsgt("status", str(folder.path)).returncode == 0
        assert verifying.left() == []


def test_the_other_process_alone_is_killed(folder: RunFolder, images: World) -> None:
    with Verifying(folder, images) as verifying:
        os.kill(verifying.wait_for_training(), signal.SIGKILL)
        code, errors = verifying.end()
        assert (code, verifying.left()) == (2, [])
        assert "ended with exit code -9" in errors


def test_all_are_killed_and_the_next_command_sweeps(folder: RunFolder, images: World) -> None:
    with Verifying(folder, images) as verifying:
        verifying.wait_for_training()
        verifying.kill_all()
        verifying.end()
        assert len(verifying.files_with_records()) == 4
        found = problems(folder)
        assert {finding.problem for finding in found} == {LEFT}
        names = {str(path.relative_to(folder.path)) for path in verifying.files_with_records()}
        assert names < {finding.name for finding in found}
        assert fedsgt("status", str(folder.path)).returncode == 0
        assert verifying.left() == []
        assert problems(folder) == []


@pytest.mark.parametrize("training", [False, True])
def test_a_deletion_does_not_leave_copies_of_its_record(
    folder: RunFolder, images: World, training: bool
) -> None:
    """Once it is certified, nothing of the record is in the run's folder, and the verification ends."""
    gone = images.rows[0]
    with Verifying(folder, images) as verifying:
        verifying.wait_for_records()
        child = verifying.wait_for_training() if training else None
        receipt = unlearn(folder, [Deletion(gone.client, records=(gone.id,))])
        assert files_with([folder.path, verifying.temporary], [gone.content]) == []
        assert receipt.certificate is not None
        assert '"kind":"work"' in receipt.certificate.read_text().replace(" ", "")
        assert problems(folder) == []
        if child is not None:
            os.kill(child, signal.SIGCONT)
        code, errors = verifying.end()
        assert code == 2
        assert errors.splitlines()[-1].endswith(
            "a deletion came in meanwhile, so nothing was verified; verify again"
        )
        assert "Traceback" not in errors
        assert verifying.left() == []


def test_all_are_killed_and_a_deletion_comes(folder: RunFolder, images: World) -> None:
    """A process that opened the run before, such as the server, deletes without a sweep."""
    gone = images.rows[0]
    with Verifying(folder, images) as verifying:
        verifying.wait_for_training()
        verifying.kill_all()
        verifying.end()
        unlearn(folder, [Deletion(gone.client, records=(gone.id,))])
        assert verifying.left() == []
        assert problems(folder) == []
