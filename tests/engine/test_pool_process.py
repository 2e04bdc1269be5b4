"""Worker processes do not import the caller's main module, never get Ctrl-C, and end with their caller."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from started_command import is_gone, wait_until
from tiny_world import World, made, trained

from fedsgt.runs.artefacts import CONFIG
from fedsgt.runs.folder import read_run
from fedsgt.stack import profile

TRAIN = """
print("main")
from pathlib import Path
from fedsgt.build.train import train
from fedsgt.config import load
from fedsgt.engine.events import ignore
train(load(Path("run.toml"), ["engine.workers=2"]), Path("run"), ignore)
print("trained")
"""
# The worker is busy for ever: putting its setup together again takes that long.
WAIT = """
import os, signal, threading, time
from fedsgt.engine.pool import Processes

class Busy:
    def __reduce__(self):
        return time.sleep, (1000,)

def start():
    global pool
    pool = Processes(Busy(), 1)
    pool.submit(1, "check")

{}
(process,) = pool.processes.values()
try:
    print(process.pid, flush=True)
    pool.wait()
except BaseException:
    print("stopped", flush=True)
    time.sleep(1000)
"""
IN_A_THREAD = "thread = threading.Thread(target=start); thread.start(); thread.join()"
WITH_A_FORK = """
start()
before = signal.signal(signal.SIGINT, signal.SIG_IGN)
if not os.fork():
    time.sleep(1000)
signal.signal(signal.SIGINT, before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("first", ["", "import torch; torch.set_num_threads(2)"])
def test_a_script_without_a_guard_trains_the_same_bytes(first: str, images: World, tmp_path: Path) -> None:
    """As in a notebook, torch may be there already, without the execution profile."""
    alone = trained(tmp_path / "alone", images.config())
    (tmp_path / CONFIG).write_bytes((tmp_path / "alone" / CONFIG).read_bytes())
    (tmp_path / "script.py").write_text(f"{first}\n{TRAIN}")
    outside = {name: value for name, value in os.environ.items() if name not in profile.environment()}
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=outside, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "main\ntrained\n", "the script ran once"
    assert made(read_run(tmp_path / "run")) == alone


@contextmanager
def caller(start: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start a process that has a busy worker; yield both, the worker by its id."""
    with subprocess.Popen(
        [sys.executable, "-c", WAIT.format(start)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline())
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("start", ["start()", IN_A_THREAD, WITH_A_FORK])
def test_a_worker_ends_with_its_caller_and_not_before(start: str) -> None:
    """Neither the end of the thread that started it ends it, nor Ctrl-C; a forked copy does not keep it."""
    with caller(start) as (process, worker):
        assert process.stdout is not None
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout.readline() == "stopped\n"
        assert not is_gone(worker)
        process.kill()
        wait_until(lambda: is_gone(worker))
        os.killpg(process.pid, signal.SIGKILL)
        assert process.stderr is not None
        assert process.stderr.read() == ""
