"""`fedsgt forgetting`, ended or killed: nothing that is made of deleted records is left behind."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from command import fedsgt
from started_command import StartedCommand, wait_until
from tiny_deletions import bytes_of, problems

from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]


class Forgetting(StartedCommand):
    """An experiment that takes long, on a run that a slice was deleted from."""

    def __init__(self, folder: RunFolder) -> None:
        unlearn(folder, [Deletion("c0", slices=(0,))])
        folder.ledger.close()
        self.folder, self.before = open_run(folder.path), bytes_of(folder.path)
        options = ("--shadows", 8, "--shadow-rounds", 500, "--strategy", "long")
        super().__init__(folder.path.parent / "private", "forgetting", folder.path, *options)

    def wait_for_modules(self) -> None:
        places = (self.folder.path / "work", self.temporary)
        wait_until(lambda: any(found for place in places for found in place.glob("*/modules/*/*")))

    def left(self) -> list[Path]:
        return [*self.temporary.iterdir(), *self.folder.path.glob("work")]


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)])
def test_ended_by_a_signal(folder: RunFolder, number: signal.Signals) -> None:
    with Forgetting(folder) as started:
        started.wait_for_modules()
        os.kill(started.process.pid, number)
        code, errors = started.end()
        assert (code, started.left()) == (128 + number, [])
        assert "Traceback" not in errors
        assert bytes_of(folder.path) == started.before


def test_killed_and_the_next_command_sweeps(folder: RunFolder) -> None:
    with Forgetting(folder) as started:
        started.wait_for_modules()
        assert problems(started.folder) == [], "the experiment is under way"
        started.kill_all()
        (problem,) = {finding.problem for finding in problems(started.folder)}
        assert problem == "left by a killed process; the next command that may write to the run removes it"
        assert fedsgt("status", str(folder.path)).returncode == 0
        assert started.left() == []
        assert problems(started.folder) == []
        assert bytes_of(folder.path) == started.before


def test_a_deletion_does_not_wait_for_it(folder: RunFolder) -> None:
    with Forgetting(folder) as started:
        started.wait_for_modules()
        (place,) = folder.path.glob(f"work/{'?' * 16}")
        unlearn(started.folder, [Deletion("c1", slices=(0,))])
        # The empty file goes with the experiment, which may have noticed the deletion by now.
        assert not place.exists() or place.read_bytes() == b""
        code, errors = started.end()
        assert code == 2
        assert errors.splitlines()[-1].endswith("a deletion came in meanwhile; start again")
        assert started.left() == []
