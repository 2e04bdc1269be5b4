"""Clients who hold their records themselves, over a grid in this process: what they show and refuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from client_machines import NAMES, Machines, access_to, remote_config, trained_here
from flwr.app import Message
from tiny_world import Quiet, World, made

from fedsgt.build.statistics import renew_statistics
from fedsgt.build.train import train
from fedsgt.engine.events import ClientTrouble, Event
from fedsgt.engine.flower.messages import text_message
from fedsgt.errors import InputError
from fedsgt.federation.client.records import ClientRecords
from fedsgt.federation.keys import known_keys
from fedsgt.federation.server.remote import RemoteClients
from fedsgt.federation.settings import load_client
from fedsgt.proof.rebuild import rebuild
from fedsgt.proof.rebuild_process import NotRebuilt, Progress, not_rebuilt
from fedsgt.proof.verify import verify
from fedsgt.runs.description import Description
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.statistics import missing_statistics, present_statistics
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import recover, unlearn


def test_the_modules_are_those_of_the_in_process_engine(
    images: World, machines: Path, tmp_path: Path
) -> None:
    run = remote_config(images, "training.rounds=2", "peft.layers=1", "privacy.epsilon=50.0")
    there = train(run, tmp_path / "there", Quiet(), access=access_to(machines))
    assert made(there) == made(trained_here(machines, run, tmp_path / "here"))
    assert all(client.node is not None for client in there.description.clients)
    for name in NAMES:
        assert not list((machines / name / "state" / "modules").glob("*")), "nothing of others stays"


def test_after_a_deletion_the_rest_verifies_and_trains_again(
    images: World, machines: Path, tmp_path: Path
) -> None:
    run = remote_config(images)
    folder = train(run, tmp_path / "run", Quiet(), access=access_to(machines))
    unlearn(folder, [Deletion("c1", slices=(0,))])

    def again(path: Path, seed: int, check: Any, progress: Progress) -> NotRebuilt:
        said: list[dict[str, Any]] = []
        described = RunFolder(path, run, Description.read((path / "run.json").read_text(), "run.json"))
        rebuild(described, seed, said.append, access_to(machines))
        return not_rebuilt(said)

    found = verify(folder, rebuild=again)
    assert found.passed
    assert found.modules
    retrained = train(run, tmp_path / "run", Quiet(), recover, access_to(machines))
    assert retrained.description.clients[1].records[0] == 0
    assert verify(retrained, rebuild=again).passed
    assert len(verify(retrained, rebuild=again).modules) == len(retrained.description.modules)


def test_who_has_deleted_everything_may_leave_for_good(images: World, machines: Path, tmp_path: Path) -> None:
    folder = train(remote_config(images), tmp_path / "run", Quiet(), access=access_to(machines))
    unlearn(folder, [Deletion("c1")])
    for _ in range(2):  # the second finds nothing new to train
        grid = Machines(machines)
        del grid.connected[2]
        display = Quiet()
        folder = train(remote_config(images), tmp_path / "run", display, recover, access_to(machines, grid))
        assert made(folder)
    assert display.modules == []
    assert folder.description.clients[1].records == [0, 0]


@pytest.mark.parametrize("last", [Deletion("c1", slices=(1,)), Deletion("c1")], ids=["slice", "all"])
def test_slices_deleted_one_after_another_and_then_the_rest(
    images: World, machines: Path, tmp_path: Path, last: Deletion
) -> None:
    """Modules trained after the first deletion stay: the empty slice keeps the fingerprint that it has."""
    run, path = remote_config(images, "grouping.seed=3"), tmp_path / "run"
    folder = train(run, path, Quiet(), access=access_to(machines))
    assert folder.description.groups_of[1] == [0, 2], "two slices in two groups"
    unlearn(folder, [Deletion("c1", slices=(0,))])
    before = made(train(run, path, Quiet(), recover, access_to(machines)))
    unlearn(folder, [last])
    hit = folder.description.groups_of[1][1]
    away = Machines(machines)
    del away.connected[2]  # the node of c1: it has nothing left, and need not come back
    display = Quiet()
    folder = train(run, path, display, recover, access_to(machines, away))
    assert folder.description.clients[1].records == [0, 0]
    assert display.modules
    assert all(hit in groups for groups in display.modules), "no other prefix is trained"
    kept = {groups: found for groups, found in before.items() if hit not in groups}
    assert kept
    assert made(folder).items() >= kept.items()
    again = Quiet()
    train(run, path, again, recover, access_to(machines, away))
    assert again.modules == []


def test_a_client_may_insist_on_privacy(images: World, machines: Path, tmp_path: Path) -> None:
    with (machines / "c0" / "client.toml").open("a", encoding="utf-8") as file:
        file.write("epsilon = 10.0\n")
    for offered in ("privacy.epsilon=11.0", "privacy.delta=0.5"):
        with pytest.raises(
            InputError, match=r"client c0: it takes part only with privacy.epsilon of at most 10"
        ):
            train(remote_config(images, offered), tmp_path / "run", Quiet(), access=access_to(machines))
    run = remote_config(images, "privacy.epsilon=10.0", "grouping.groups=1")
    assert made(train(run, tmp_path / "run", Quiet(), access=access_to(machines)))


def test_neither_ids_nor_salts_are_in_anything_that_leaves_a_client(
    images: World, machines: Path, tmp_path: Path
) -> None:
    grid = Machines(machines)
    folder = train(remote_config(images), tmp_path / "run", Quiet(), access=access_to(machines, grid))
    secrets = {row.id.encode() for row in images.rows}
    for name in NAMES:
        own = ClientRecords(load_client(machines / name))
        secrets |= {own.salt, own.salt.hex().encode(), own.slicing_seed.encode()}
    texts = [str(content.config_records).encode() for _, content in grid.heard]
    files = [path.read_bytes() for path in folder.path.rglob("*") if path.is_file()]
    assert len(texts) > len(NAMES)
    for secret in secrets:
        assert not any(secret in held for held in (*texts, *files)), secret


def test_a_record_that_cannot_be_used_is_named_at_home_only(
    images: World, machines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pq.read_table(machines / "c2" / "records.parquet").to_pydict()
    table["image"][3] = b"no image"
    pq.write_table(pa.table(table), machines / "c2" / "records.parquet")
    with pytest.raises(InputError, match="client c2: something is wrong on its machine") as caught:
        train(remote_config(images), tmp_path / "run", Quiet(), access=access_to(machines))
    assert table["id"][3] not in str(caught.value)
    assert table["id"][3] in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_records_that_changed_since_they_were_registered_are_not_trained_on(
    images: World, machines: Path, tmp_path: Path
) -> None:
    def one_record_less(client: str, message: Message, answer: Callable[[], Message]) -> Message:
        """Take a record out of the client's file between the registration and the first round."""
        if client == "c0" and message.metadata.message_type == "train":
            table = pq.read_table(machines / "c0" / "records.parquet")
            pq.write_table(table.slice(1), machines / "c0" / "records.parquet")
        return answer()

    access = access_to(machines, Machines(machines, one_record_less))
    with pytest.raises(InputError, match="client c0: the records of its slices are not those"):
        train(
            remote_config(images),
            tmp_path / "run",
            Quiet(),
            access=access,
        )


def test_a_client_is_known_by_its_key(images: World, machines: Path, tmp_path: Path) -> None:
    """Another key under the same name is somebody else: a run goes on only with those who began it."""
    # The number of clients may be left out: the server has their keys.
    left_out = remote_config(images, "data.clients=")
    folder = train(left_out, tmp_path / "run", Quiet(), access=access_to(machines))
    assert folder.config.data.clients == 4
    keys = known_keys(machines / "server" / "clients")
    access = RemoteClients(Machines(machines), {**keys, "c1": keys["c2"], "c2": keys["c1"]}, print)
    with pytest.raises(InputError, match="client c1: the key in the server's folder is not the one"):
        train(remote_config(images), tmp_path / "run", Quiet(), recover, access)


def test_settings_that_do_not_fit_remote_clients(images: World, machines: Path, tmp_path: Path) -> None:
    for override, message in (
        ("data.clients=3", "data.clients is 3, but the server knows the keys of 4"),
        ("grouping.method=bac", "looks at the records, which stay with remote clients"),
    ):
        with pytest.raises(InputError, match=message):
            train(remote_config(images, override), tmp_path / "run", Quiet(), access=access_to(machines))
    with pytest.raises(InputError, match="train this run with --engine flower"):
        train(remote_config(images), tmp_path / "run", Quiet())


def test_a_client_that_cannot_register_holds_up_no_statistics_of_others(
    images: World, machines: Path, tmp_path: Path
) -> None:
    run = remote_config(images, "heads.solve=true")
    folder = train(run, tmp_path / "run", Quiet(), access=access_to(machines))
    unlearn(folder, [Deletion("c0", slices=(0,))])
    for name in present_statistics(folder):
        if name.client == 1:
            (folder.path / name.file).unlink()

    def refuse(client: str, asked: Message, answer: Callable[[], Message]) -> Message:
        if client != "c0":
            return answer()
        return Message(text_message({"problem": "not today"}), reply_to=asked)

    grid, told = Machines(machines, refuse), list[Event]()
    access = RemoteClients(grid, known_keys(machines / "server" / "clients"), told.append, pause=0.01)
    renew_statistics(folder, told.append, access)
    assert clients_missing(folder) == {0}
    assert [event for event in told if isinstance(event, ClientTrouble)] == [ClientTrouble("c0", "not today")]
    assert {client for client, _ in grid.heard} == {"c0", "c1"}, "nobody else is disturbed"


@pytest.mark.parametrize("absent", ["wait", "go-on"])
def test_a_client_that_is_away_is_left_out_of_new_statistics(
    images: World, machines: Path, tmp_path: Path, absent: str
) -> None:
    """Not even one that has deleted data before, of which the server cannot know what is left."""
    run = remote_config(images, "heads.solve=true")
    folder = train(run, tmp_path / "run", Quiet(), access=access_to(machines))
    unlearn(folder, [Deletion("c0", slices=(0,))])
    engine = run.engine.model_copy(update={"absent": absent, "timeout": 0.01})
    soon = RunFolder(folder.path, folder.config.model_copy(update={"engine": engine}), folder.description)
    grid, told = Machines(machines), list[Event]()
    grid.connected = {node: name for node, name in grid.connected.items() if name != "c0"}
    access = RemoteClients(grid, known_keys(machines / "server" / "clients"), told.append, pause=0.01)
    assert renew_statistics(soon, told.append, access) == 0
    assert clients_missing(folder) == {0}
    assert [event.client for event in told if isinstance(event, ClientTrouble)] == ["c0"]


def clients_missing(folder: RunFolder) -> set[int]:
    """Return the numbers of the clients that lack statistics."""
    return {name.client for names in missing_statistics(folder, folder.live()).values() for name in names}
