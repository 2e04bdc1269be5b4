"""Ctrl-C and SIGTERM at many moments of real commands, as a terminal sends them: never a traceback.

A signal in the first hundredths of a second, before Python runs any of our code, is out of reach.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from started_command import PATIENCE, StartedCommand, wait_until
from tiny_deletions import trained_run
from tiny_world import World

from fedsgt.ledger.kinds import Kind
from fedsgt.runs.artefacts import CONFIG
from fedsgt.runs.folder import open_run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")

# Seconds that each command takes on a slow machine: signals come at random moments before.
LIVES = {"status": 1.0, "plan": 1.0, "unlearn": 1.5, "predict": 5.0, "train": 9.0, "verify": 9.0}


@dataclass(frozen=True)
class Moment:
    """A signal, the seconds after which it is sent, and whether it is sent twice."""

    command: str
    number: signal.Signals
    after: float
    twice: bool

    def __str__(self) -> str:
        return f"{self.command}-{self.number.name}-{self.after:.2f}{'-twice' if self.twice else ''}"


def moments(seed: int, each: int) -> list[Moment]:
    """Draw signals, and moments that are spread evenly over the life of each command."""
    rng = random.Random(seed)
    return [
        Moment(
            name,
            rng.choice((signal.SIGINT, signal.SIGTERM)),
            life * (place + rng.random()) / each,
            rng.random() < 0.3,
        )
        for name, life in LIVES.items()
        for place in range(each)
    ]


@pytest.fixture(scope="module")
def source(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a trained run, whose workers are processes from now on."""
    path = trained_run(images, tmp_path_factory.mktemp("sweep") / "run", ["training.rounds=3"])
    settings = (path / CONFIG).read_text()
    (path / CONFIG).write_text(settings.replace("workers = 0", "workers = 2"))
    return path


class Interrupted(StartedCommand):
    """A command that gets a signal, as do all processes of its terminal."""

    def ready(self) -> bool:
        """Whether its first lines have run, so that SIGTERM has a handler."""
        assert self.process.poll() is None, "it ended before it got a signal"
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        caught = next(line for line in lines if line.startswith("SigCgt"))
        return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)

    def interrupt(self, moment: Moment) -> tuple[int, str, str]:
        """Send the signal at the moment; return exit code, output and errors."""
        wait_until(self.ready)
        time.sleep(moment.after)
        for _ in range(1 + moment.twice):
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, moment.number)
        output, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, output, errors

    def family(self) -> Iterator[int]:
        """Yield the processes that have inherited its environment, in whichever session they are."""
        mark = f"TMPDIR={self.temporary}".encode()
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (place / "environ").read_bytes().split(b"\0"):
                    yield int(place.name)


def arguments(command: str, run: Path) -> list[object]:
    """Return the command line of a command on a run, or on its configuration."""
    more: dict[str, list[object]] = {
        "status": [run],
        "plan": [run / CONFIG],
        "unlearn": [run, "--client", "c0", "--all", "--yes"],
        "predict": [run, "--test"],
        "train": [run / CONFIG, "-o", run.with_name("trained")],
        "verify": [run],
    }
    return [command, *more[command]]


def check(moment: Moment, code: int, run: Path, said: str) -> None:
    """Check the exit code: that of the signal, or of a command that had ended before."""
    stopped = 128 + moment.number
    if moment.command != "unlearn":
        assert code in (0, stopped)
        return
    with open_run(run).ledger as ledger:
        accepted = any(entry.kind == Kind.REQUEST for entry in ledger.entries())
    assert code in (0, 3, stopped)
    assert accepted == (code in (0, 3)), "the code says whether the deletion is in force"
    if code == 3:
        assert "in force" in said


def sweep(moment: Moment, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDSGT_STATE", str(folder / "state"))
    run = Path(shutil.copytree(source, folder / "run"))
    with Interrupted(folder / "temporary", *arguments(moment.command, run)) as started:
        code, output, errors = started.interrupt(moment)
        assert "Traceback" not in errors, errors
        assert "Exception" not in errors, errors
        check(moment, code, run, output + errors)
        wait_until(lambda: not list(started.family()))
        assert not list(started.temporary.iterdir())
        assert not list(run.glob("work/*")), "no record lies outside of its place"


@pytest.mark.parametrize("moment", moments(1, 1), ids=str)
def test_a_signal_at_any_moment(
    moment: Moment, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep(moment, source, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("moment", moments(2, 16), ids=str)
def test_a_signal_at_many_moments(
    moment: Moment, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep(moment, source, tmp_path, monkeypatch)
