"""A client's machine trains on what it registered and has not withdrawn, and survives the end of a worker."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from client_machines import Intercept, Machines, access_to, remote_config, set_workers, trained_here
from flwr.app import Message
from tiny_world import Quiet, World, made

from fedsgt.build.train import train
from fedsgt.engine.flower.messages import TEXT, decode_order
from fedsgt.engine.pool import Processes
from fedsgt.errors import InputError
from fedsgt.federation.client import node_app
from fedsgt.federation.client.node_app import NOT_ITS_SLICES
from fedsgt.federation.client.records import ClientRecords
from fedsgt.federation.client.withdraw import withdraw
from fedsgt.federation.settings import load_client
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import recover

LEAVING = "it is deleting records of its slices, and the server's desk has not answered yet"


def withdrawing(machines: Path) -> Intercept:
    """Let c1 withdraw a record of its slice 0, without a desk that answers, before its second order."""
    orders: list[str] = []

    def intercept(client: str, message: Message, answer: Callable[[], Message]) -> Message:
        if client == "c1" and message.metadata.message_type == "train":
            orders.append(client)
            if len(orders) == 2:
                settings = load_client(machines / "c1")
                own = ClientRecords(settings)
                (enrolment,) = own.enrolments()
                record = own.enrolled(enrolment).cut()[0][0].id
                (outcome,) = withdraw(settings, Deletion("c1", records=(record,)))
                assert outcome.state == "kept", "the desk cannot be reached"
        return answer()

    return intercept


def test_records_of_an_unanswered_withdrawal_are_not_trained_on(
    images: World, machines: Path, tmp_path: Path
) -> None:
    run = remote_config(images, "engine.absent=go-on", "grouping.seed=3")
    access, display = access_to(machines, Machines(machines, withdrawing(machines))), Quiet()
    folder = train(run, tmp_path / "run", display, access=access)
    assert {client for client, _ in display.troubles} == {"c1"}
    assert all(LEAVING in what for _, what in display.troubles)
    leaving, staying = folder.description.groups_of[1]
    assert leaving != staying
    for entry in folder.description.modules:
        (names,) = folder.modules.manifest(entry.key).participants
        first = len(entry.groups) == 1  # trained before the withdrawal
        has_records = not {leaving, staying}.isdisjoint(entry.groups)
        assert ("c1" in names) == (has_records and (first or leaving not in entry.groups)), entry.groups


def test_a_training_that_waits_for_all_ends_then(images: World, machines: Path, tmp_path: Path) -> None:
    access = access_to(machines, Machines(machines, withdrawing(machines)))
    with pytest.raises(InputError, match=f"client c1: {LEAVING}"):
        train(remote_config(images), tmp_path / "run", Quiet(), access=access)


@pytest.mark.parametrize("strange", [-1, 2, True, [0], "twice"])
def test_an_order_that_names_strange_slices_is_refused(
    images: World, machines: Path, tmp_path: Path, strange: Any
) -> None:
    """A negative number would train on a slice twice, or on one that is being deleted."""

    def intercept(client: str, message: Message, answer: Callable[[], Message]) -> Message:
        if client == "c1" and message.metadata.message_type == "train":
            text = message.content.config_records[TEXT]
            order = json.loads(str(text["json"]))
            for job in order["jobs"]:
                job["slices"].append(job["slices"][0] if strange == "twice" else strange)
            text["json"] = json.dumps(order)
        return answer()

    run = remote_config(images, "engine.absent=go-on", "plan.budget=1")
    access, display = access_to(machines, Machines(machines, intercept)), Quiet()
    folder = train(run, tmp_path / "run", display, access=access)
    assert {client for client, _ in display.troubles} == {"c1"}
    assert all(NOT_ITS_SLICES in what for _, what in display.troubles)
    for entry in folder.description.modules:
        assert not any("c1" in names for names in folder.modules.manifest(entry.key).participants)


def worker_of(client: Path) -> int:
    """Process id of the client's only worker."""
    session = node_app.trainer_of(str(client / "client.toml")).session
    assert session is not None
    assert isinstance(session.pool, Processes)
    (process,) = session.pool.processes.values()
    assert process.pid is not None
    return process.pid


def killing(machines: Path) -> Intercept:
    """Kill the only worker of c0 once, while it waits for its second order."""
    killed: list[int] = []

    def intercept(client: str, message: Message, answer: Callable[[], Message]) -> Message:
        train = client == "c0" and message.metadata.message_type == "train"
        if train and not killed and any(job.parents for job in decode_order(message.content).jobs):
            killed.append(worker_of(machines / "c0"))
            os.kill(killed[0], signal.SIGKILL)
        return answer()

    return intercept


def test_a_worker_that_died_is_replaced_for_the_next_order(
    images: World, machines: Path, tmp_path: Path
) -> None:
    set_workers(machines / "c0", 1)
    run = remote_config(images, "engine.absent=go-on")
    access, display = access_to(machines, Machines(machines, killing(machines))), Quiet()
    folder = train(run, tmp_path / "run", display, access=access)
    assert {client for client, _ in display.troubles} == {"c0"}
    own = set(folder.description.groups_of[0])
    for entry in folder.description.modules:
        (names,) = folder.modules.manifest(entry.key).participants
        lost = len(entry.groups) == 2  # the second order: all prefixes of two groups
        assert ("c0" in names) == (not own.isdisjoint(entry.groups) and not lost), entry.groups


def test_the_same_command_goes_on_after_a_worker_died(images: World, machines: Path, tmp_path: Path) -> None:
    set_workers(machines / "c0", 1)
    run, path = remote_config(images), tmp_path / "run"
    grid = Machines(machines, killing(machines))
    with pytest.raises(InputError, match="client c0: something is wrong on its machine"):
        train(run, path, Quiet(), access=access_to(machines, grid))
    folder = train(run, path, Quiet(), recover, access_to(machines, grid))
    assert made(folder) == made(trained_here(machines, run, tmp_path / "here"))
