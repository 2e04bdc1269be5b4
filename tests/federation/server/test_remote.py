"""Clients who hold their records themselves, over a grid in this process: what they show and refuse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives import serialization
from flower_internals import NodeInfo
from flwr.app import Context, Message, RecordDict
from tiny_world import LABELS, Quiet, World, build, made

from fedsgt.build.prepare import Prepared, describe, prepare_clients
from fedsgt.build.train import train
from fedsgt.config import Config
from fedsgt.engine.flower.local_grid import RUN, LocalGrid
from fedsgt.errors import InputError
from fedsgt.federation.client import node_app
from fedsgt.federation.client.records import ClientRecords
from fedsgt.federation.keys import known_keys, make_authority, make_client
from fedsgt.federation.server.remote import RemoteClients
from fedsgt.federation.settings import load_client
from fedsgt.proof.rebuild import rebuild
from fedsgt.proof.rebuild_process import NotRebuilt, Progress, not_rebuilt
from fedsgt.proof.verify import verify
from fedsgt.runs.description import Description
from fedsgt.runs.folder import RunFolder, create_run
from fedsgt.runs.records import ClientData
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import recover, unlearn

NAMES = ("c0", "c1", "c2", "c3")


class Homes(LocalGrid):
    """Each node is at home with one client, and known by its key."""

    def __init__(self, folder: Path) -> None:
        super().__init__(node_app.app, len(NAMES))
        self.heard: list[tuple[str, RecordDict]] = []
        self.connected = dict(zip(self.nodes, NAMES, strict=True))
        self.keys: dict[int, bytes] = {}
        for node, name in self.connected.items():
            self.contexts[node] = Context(
                RUN, node, {"client": str(folder / name / "client.toml")}, RecordDict(), {}
            )
            public = serialization.load_ssh_public_key((folder / name / "node.pub").read_bytes())
            self.keys[node] = public.public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )

    def get_nodes(self) -> Iterable[NodeInfo]:
        return [
            NodeInfo(node_id=node, public_key=self.keys[node], status="online", last_activated_at="now")
            for node in self.connected
        ]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        replies = list(super().pull_messages(message_ids))
        for reply in replies:
            if not reply.has_error():
                self.heard.append((self.connected[reply.metadata.src_node_id], reply.content))
        return replies


@pytest.fixture
def homes(images: World, tmp_path: Path) -> Iterator[Path]:
    """A folder as `fedsgt keys` makes it, with each client's own records."""
    folder = tmp_path / "federation"
    make_authority(folder)
    for name in NAMES:
        make_client(folder, name)
        file = folder / name / "client.toml"
        file.write_text(
            file.read_text(encoding="utf-8").replace("workers = 1", "workers = 0"), encoding="utf-8"
        )
        rows = [row for row in images.rows if row.client == name]
        columns: dict[str, list[Any]] = {
            "id": [row.id for row in rows],
            "label": [row.label for row in rows],
            "image": [row.content for row in rows],
        }
        pq.write_table(pa.table(columns), folder / name / "records.parquet")
    yield folder
    for name in NAMES:
        node_app.trainer_of(str(folder / name / "client.toml")).idle.cancel()
    node_app.trainer_of.cache_clear()


def config(images: World, *overrides: str) -> Config:
    return images.config("data.partition=remote", "engine.name=flower", *overrides)


def site_of(homes: Path, grid: LocalGrid | None = None) -> RemoteClients:
    return RemoteClients(grid or Homes(homes), known_keys(homes / "server" / "clients"), print, pause=0.01)


def at_home(homes: Path, run: Config) -> Prepared:
    """The same clients, as if all their records were here."""
    owners = {name: ClientRecords(load_client(homes / name)) for name in NAMES}
    slices = run.slices_per_client()[0]
    clients = tuple(own.client(name, slices, LABELS) for name, own in owners.items())
    return prepare_clients(run, ClientData(clients, LABELS, None))


def trained_here(homes: Path, run: Config, path: Path) -> RunFolder:
    local = run.model_copy(update={"engine": run.engine.model_copy(update={"name": "in-process"})})
    prepared = at_home(homes, local)
    folder = create_run(path, local, describe(prepared))
    build(prepared, folder)
    return folder


def test_the_modules_are_those_of_the_in_process_engine(images: World, homes: Path, tmp_path: Path) -> None:
    run = config(images, "training.rounds=2", "peft.layers=1", "privacy.epsilon=50.0")
    there = train(run, tmp_path / "there", Quiet(), access=site_of(homes))
    assert made(there) == made(trained_here(homes, run, tmp_path / "here"))
    assert all(client.node is not None for client in there.description.clients)
    for name in NAMES:
        assert not list((homes / name / "state" / "modules").glob("*")), "nothing of others stays"


def test_after_a_deletion_the_rest_verifies_and_trains_again(
    images: World, homes: Path, tmp_path: Path
) -> None:
    run = config(images)
    folder = train(run, tmp_path / "run", Quiet(), access=site_of(homes))
    unlearn(folder, [Deletion("c1", slices=(0,))])

    def again(path: Path, seed: int, check: Any, progress: Progress) -> NotRebuilt:
        said: list[dict[str, Any]] = []
        described = RunFolder(path, run, Description.read((path / "run.json").read_text(), "run.json"))
        rebuild(described, seed, said.append, site_of(homes))
        return not_rebuilt(said)

    found = verify(folder, rebuild=again)
    assert found.passed
    assert found.modules
    retrained = train(run, tmp_path / "run", Quiet(), recover, site_of(homes))
    assert retrained.description.clients[1].records[0] == 0
    assert verify(retrained, rebuild=again).passed
    assert len(verify(retrained, rebuild=again).modules) == len(retrained.description.modules)


def test_who_has_deleted_everything_may_leave_for_good(images: World, homes: Path, tmp_path: Path) -> None:
    folder = train(config(images), tmp_path / "run", Quiet(), access=site_of(homes))
    unlearn(folder, [Deletion("c1")])
    for _ in range(2):  # the second finds nothing new to train
        grid = Homes(homes)
        del grid.connected[2]
        display = Quiet()
        folder = train(config(images), tmp_path / "run", display, recover, site_of(homes, grid))
        assert made(folder)
    assert display.modules == []
    assert folder.description.clients[1].records == [0, 0]


def test_a_client_may_insist_on_privacy(images: World, homes: Path, tmp_path: Path) -> None:
    with (homes / "c0" / "client.toml").open("a", encoding="utf-8") as file:
        file.write("epsilon = 10.0\n")
    for offered in ("privacy.epsilon=11.0", "privacy.delta=0.5"):
        with pytest.raises(
            InputError, match=r"client c0: it takes part only with privacy.epsilon of at most 10"
        ):
            train(config(images, offered), tmp_path / "run", Quiet(), access=site_of(homes))
    run = config(images, "privacy.epsilon=10.0", "grouping.groups=1")
    assert made(train(run, tmp_path / "run", Quiet(), access=site_of(homes)))


def test_neither_ids_nor_salts_are_in_anything_that_leaves_a_client(
    images: World, homes: Path, tmp_path: Path
) -> None:
    grid = Homes(homes)
    folder = train(config(images), tmp_path / "run", Quiet(), access=site_of(homes, grid))
    secrets = {row.id.encode() for row in images.rows}
    for name in NAMES:
        own = ClientRecords(load_client(homes / name))
        secrets |= {own.salt, own.salt.hex().encode(), own.slicing_seed.encode()}
    texts = [str(content.config_records).encode() for _, content in grid.heard]
    files = [path.read_bytes() for path in folder.path.rglob("*") if path.is_file()]
    assert len(texts) > len(NAMES)
    for secret in secrets:
        assert not any(secret in held for held in (*texts, *files)), secret


def test_a_record_that_cannot_be_used_is_named_at_home_only(
    images: World, homes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pq.read_table(homes / "c2" / "records.parquet").to_pydict()
    table["image"][3] = b"no image"
    pq.write_table(pa.table(table), homes / "c2" / "records.parquet")
    with pytest.raises(InputError, match="client c2: something is wrong on its machine") as caught:
        train(config(images), tmp_path / "run", Quiet(), access=site_of(homes))
    assert table["id"][3] not in str(caught.value)
    assert table["id"][3] in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_records_that_changed_since_they_were_registered_are_not_trained_on(
    images: World, homes: Path, tmp_path: Path
) -> None:
    class Changes(Homes):
        """One more record on the client's machine, between the registration and the first round."""

        def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
            there = list(messages)
            if there[0].metadata.message_type == "train" and not self.heard[len(NAMES) :]:
                table = pq.read_table(homes / "c0" / "records.parquet")
                pq.write_table(table.slice(1), homes / "c0" / "records.parquet")
            return super().push_messages(there)

    with pytest.raises(InputError, match="client c0: the records of its slices are not those"):
        train(config(images), tmp_path / "run", Quiet(), access=site_of(homes, Changes(homes)))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"fingerprints": ["x"]}, "it registered with what nobody can read"),
        ({"records": [1, -5]}, "it registered with what nobody can read"),
        ({"records": [True, 1]}, "it registered with what nobody can read"),
        ({"backbone": "f" * 64}, "its backbone is another one than the server's"),
        ({"profile": {"threads": "2"}}, "it computes in another way than the server"),
    ],
)
def test_what_a_client_registers_is_checked(
    images: World,
    homes: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wrong: dict[str, Any],
    message: str,
) -> None:
    trainer = node_app.trainer_of(str(homes / "c3" / "client.toml"))
    honest = trainer.register
    monkeypatch.setattr(trainer, "register", lambda about: honest(about) | wrong)
    with pytest.raises(InputError, match=f"client c3: {message}"):
        train(config(images), tmp_path / "run", Quiet(), access=site_of(homes))
    assert not (tmp_path / "run").exists()


def test_a_client_is_known_by_its_key(images: World, homes: Path, tmp_path: Path) -> None:
    """Another key under the same name is somebody else: a run goes on only with those who began it."""
    train(config(images), tmp_path / "run", Quiet(), access=site_of(homes))
    keys = known_keys(homes / "server" / "clients")
    access = RemoteClients(Homes(homes), {**keys, "c1": keys["c2"], "c2": keys["c1"]}, print)
    with pytest.raises(InputError, match="client c1: the key in the server's folder is not the one"):
        train(config(images), tmp_path / "run", Quiet(), recover, access)


def test_settings_that_do_not_fit_remote_clients(images: World, homes: Path, tmp_path: Path) -> None:
    for override, message in (
        ("data.clients=3", "data.clients is 3, but the server knows the keys of 4"),
        ("grouping.method=bac", "looks at the records, which stay with remote clients"),
    ):
        with pytest.raises(InputError, match=message):
            train(config(images, override), tmp_path / "run", Quiet(), access=site_of(homes))
    with pytest.raises(InputError, match="train this run with --engine flower"):
        train(config(images), tmp_path / "run", Quiet())
