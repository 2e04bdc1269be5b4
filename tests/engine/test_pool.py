"""Worker processes: errors in one reach the caller, and the caller never waits for a process that is gone."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tiny_traps import trap
from tiny_world import World

from fedsgt.build.prepare import prepare
from fedsgt.engine.pool import Failure, Inline, Pool, Processes
from fedsgt.engine.worker import Setup
from fedsgt.errors import InputError
from fedsgt.files.tensors import Tensors
from fedsgt.store import MissingModule, Modules, open_objects


@pytest.fixture(scope="module")
def setup(images: World) -> Setup:
    return replace(
        prepare(images.config()).setup(Modules(open_objects("memory://pool")), None), read_module=trap
    )


@pytest.fixture
def processes(setup: Setup) -> Iterator[Processes]:
    pool = Processes(setup, 1)
    yield pool
    pool.stop()
    assert all(process.poll() is not None for process in pool.processes.values())


@pytest.fixture(scope="module")
def state(images: World) -> Tensors:
    stack = prepare(images.config()).model.stack
    return stack.begin(0, stack.initial_head(0))


def job(state: Tensors, *parents: str) -> tuple[Any, ...]:
    return ("update", parents, state, "c0", (0,), 1)


def check_errors(pool: Pool, state: Tensors) -> None:
    """After an error a pool is as good as before."""
    pool.submit(1, *job(state, "input"))
    with pytest.raises(InputError, match=r"^the store has no room$"):
        raise failure(pool)
    pool.submit(2, *job(state, "bug"))
    with pytest.raises((RuntimeError, ZeroDivisionError), match="a bug in the worker"):
        raise failure(pool)
    pool.submit(3, *job(state))
    number, update = pool.wait()
    assert (number, update.client) == (3, "c0")


def failure(pool: Pool) -> Exception:
    _, found = pool.wait()
    assert isinstance(found, Failure)
    return found.error()


def test_errors_pass_through_without_processes(setup: Setup, state: Tensors) -> None:
    pool = Inline(setup)
    check_errors(pool, state)
    pool.close()


def test_errors_come_out_of_a_process_and_a_touched_backbone_is_found(
    processes: Processes, state: Tensors
) -> None:
    """Check all errors with one process, because a process takes seconds to start."""
    check_errors(processes, state)
    processes.submit(4, *job(state, "bug"))
    with pytest.raises(
        RuntimeError, match=r"(?s)in a worker process:.*Traceback.*in trap.*ZeroDivisionError"
    ):
        raise failure(processes)
    processes.submit(5, *job(state, "touch"))
    with pytest.raises(InputError, match="touched"):
        raise failure(processes)
    with pytest.raises(RuntimeError, match="the backbone's weights were changed"):
        processes.close()


ENDED = r"^a worker process ended by itself \(exit code -9; [^\n]*goes on after the last finished round$"


def test_a_process_killed_at_work_is_reported(processes: Processes, state: Tensors) -> None:
    processes.submit(1, *job(state))
    kill(processes)
    processes.submit(2, *job(state))
    with pytest.raises(InputError, match=ENDED):
        processes.wait()


def test_a_process_killed_between_jobs_is_reported(processes: Processes, state: Tensors) -> None:
    kill(processes)
    with pytest.raises(InputError, match=ENDED):
        processes.submit(1, *job(state))
    with pytest.raises(InputError, match=ENDED):
        close_as_if_used(processes)


def kill(pool: Processes) -> None:
    (process,) = pool.processes.values()
    process.kill()
    process.wait()


def close_as_if_used(pool: Processes) -> None:
    """Close the pool as if every process had done a job before."""
    pool.used = set(pool.processes)
    pool.close()


@pytest.mark.parametrize("error", [InputError("a"), MissingModule("b"), KeyError("c"), OSError(28, "d")])
def test_what_went_wrong_can_be_sent(error: Exception) -> None:
    sent = pickle.loads(pickle.dumps(Failure(error)))
    kind = type(error) if isinstance(error, InputError) else RuntimeError
    with pytest.raises(kind, match=str(error.args[-1])):
        raise sent.error()


def test_an_error_that_cannot_be_sent_is_sent_as_text() -> None:
    class Local(Exception):
        pass

    with pytest.raises(RuntimeError, match="cannot be pickled"):
        raise pickle.loads(pickle.dumps(Failure(Local("cannot be pickled")))).error()
