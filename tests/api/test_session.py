"""A session works here if this process has the execution profile, and else in a helper that has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import session_tasks as tasks
from given_world import data_of
from tiny_world import World, trained

import fedsgt
from fedsgt.api.session import Session
from fedsgt.config import to_toml
from fedsgt.errors import InputError
from fedsgt.serving.predictor import Exhausted
from fedsgt.stack import profile

HELPERS = Path(tasks.__file__).parent


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """Return a session in a process that, as far as can be told, has no profile."""
    monkeypatch.delenv("MKL_CBWR")
    monkeypatch.setenv("PYTHONPATH", f"{HELPERS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    session = Session()
    yield session
    session.close()


def is_alive(process: int) -> bool:
    status = Path(f"/proc/{process}/status")
    return status.exists() and "zombie" not in status.read_text()


def test_work_is_done_here_with_the_profile() -> None:
    session = Session()
    assert session.call(tasks.where) == (os.getpid(), profile.environment()["MKL_CBWR"])
    assert session.helper is None


def test_work_is_done_by_one_helper_without_it(elsewhere: Session) -> None:
    process, mode = elsewhere.call(tasks.where)
    assert process != os.getpid()
    assert mode == profile.environment()["MKL_CBWR"]
    assert "MKL_CBWR" not in os.environ, "the caller's environment is its own"
    assert elsewhere.call(tasks.where)[0] == process
    elsewhere.close()
    assert not is_alive(process)
    assert elsewhere.call(tasks.where)[0] not in (process, os.getpid())


@pytest.mark.parametrize("here", [True, False])
def test_events_come_in_order_and_state_is_kept(here: bool, elsewhere: Session) -> None:
    session, told = Session() if here else elsewhere, list[int]()
    if here:
        os.environ.update(profile.environment())
    assert session.call(tasks.count, 3, tell=told.append) == 3
    assert session.call(tasks.count, 2, tell=told.append) == 5
    assert told == [0, 1, 2, 0, 1]


def test_errors_are_those_of_the_task(elsewhere: Session) -> None:
    with pytest.raises(InputError, match="wrong input"):
        elsewhere.call(tasks.fail, "input")
    with pytest.raises(Exhausted, match="nothing is live"):
        elsewhere.call(tasks.fail, "known")
    with pytest.raises(InputError, match=r"client-7.*too large"):
        elsewhere.call(tasks.fail, "of several words")
    with pytest.raises(RuntimeError, match="ZeroDivisionError: a bug"):
        elsewhere.call(tasks.fail, "bug")
    assert elsewhere.call(tasks.count, 1) == 1, "an error ends no session"


def test_a_helper_that_dies_is_told_and_replaced(elsewhere: Session) -> None:
    with pytest.raises(InputError, match=r"ended by itself .exit code -9.*the same call goes on"):
        elsewhere.call(tasks.die)
    assert elsewhere.call(tasks.count, 1) == 1


def test_a_stop_ends_the_helper(elsewhere: Session) -> None:
    """What it was asked is not finished, so its answer must not be taken for that of the next question."""
    processes = []

    def stop(process: int) -> None:
        processes.append(process)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        elsewhere.call(tasks.sleep, tell=stop)
    assert not is_alive(processes[0])
    assert elsewhere.call(tasks.count, 1) == 1


def test_a_progress_function_may_not_ask_the_same_session(elsewhere: Session) -> None:
    """Its answer would be taken for that of the call under way."""

    def ask(number: int) -> None:
        elsewhere.call(tasks.where)

    with pytest.raises(InputError, match=r"this run is at work.*open the run once more"):
        elsewhere.call(tasks.count, 1, tell=ask)
    assert elsewhere.call(tasks.count, 2) == 2


def test_a_fork_has_a_helper_of_its_own(elsewhere: Session) -> None:
    helper = elsewhere.call(tasks.where)[0]
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, str(elsewhere.call(tasks.where)[0]).encode())
        elsewhere.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert int(os.read(reading, 100)) not in (helper, os.getpid())
    assert elsewhere.call(tasks.where)[0] == helper


def test_a_forgotten_session_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MKL_CBWR")
    monkeypatch.setenv("PYTHONPATH", f"{HELPERS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    process = Session().call(tasks.where)[0]
    for _ in range(100):
        if not is_alive(process):
            return
        time.sleep(0.05)
    pytest.fail("the helper is still there")


# What a notebook does: torch comes first and computes with all threads, and nothing is guarded.
SCRIPT = """
import json, sys, threading
import torch

threads = torch.get_num_threads()
import fedsgt

given = json.load(open(sys.argv[1]))
rows = {part: [{**row, "image": bytes.fromhex(row["image"])} for row in rows] for part, rows in given.items()}
run = fedsgt.train(sys.argv[2], sys.argv[3], data=rows, progress=False)
before = run.evaluate().accuracy
answer = run.predict([row["image"] for row in rows["test"]])
receipt = run.unlearn("c1", slices=[0])
print(json.dumps({
    "threads": threads == torch.get_num_threads(),
    "deterministic": torch.are_deterministic_algorithms_enabled(),
    "modules": {entry.key: 0 for entry in run.folder.description.modules},
    "labels": answer.labels,
    "accuracy": before.accuracy,
    "in force": receipt.in_force,
    "verified": run.verify(sample=1).passed,
    "clean": run.audit().clean,
}))
"""


@pytest.mark.slow
def test_a_script_without_a_guard_that_imported_torch_first(images: World, tmp_path: Path) -> None:
    config = images.config("engine.workers=2")
    (tmp_path / "my.toml").write_text(to_toml(config))
    rows: Any = {
        part: [{**row, "image": row["image"].hex()} for row in rows] for part, rows in data_of(images).items()
    }
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = {name: value for name, value in os.environ.items() if name not in profile.environment()}
    done = subprocess.run(
        [sys.executable, "script.py", "rows.json", "my.toml", "run"],
        cwd=tmp_path,
        env=environment | {"OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    alone = trained(tmp_path / "alone", images.config())
    assert set(found["modules"]) == {key for key, _ in alone.values()}
    assert found["threads"] is True, "the caller's torch has other settings now"
    assert found["deterministic"] is False
    assert (found["in force"], found["verified"], found["clean"]) == (True, True, True)
    with fedsgt.open_run(tmp_path / "alone") as run:
        assert run.predict([row["image"] for row in data_of(images)["test"]]).labels == found["labels"]
        measured = run.evaluate().accuracy
        assert measured is not None
        assert measured.accuracy == found["accuracy"]
